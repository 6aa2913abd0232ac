def page(r): return ""
def frame(r): return ""
