"""What leaves the process: files and bytes of modules, and their digests."""
