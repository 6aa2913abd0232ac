"""Target descriptions: every key has an effect, is recorded, or is refused by name."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from forge.errors import TargetError
from forge.target import TAGS, Target, host
from forge.target.isa import AARCH64, X86_64


@pytest.mark.parametrize("level, bits, registers", [
    ("x86-64", 128, 16), ("x86-64-v2", 128, 16), ("x86-64-v3", 256, 16), ("x86-64-v4", 512, 32)])
def test_levels(level: str, bits: int, registers: int) -> None:
    target = Target.parse(f"llvm -mcpu={level}")
    assert (target.cpu, target.vector_bits, target.vector_registers) == (level, bits, registers)
    assert target.lanes("float32") == bits // 32 and target.lanes("int8") == bits // 8 and target.lanes("bool") == bits // 8
    assert set(X86_64.cpus[level].features) <= set(target.features)


@pytest.mark.parametrize("form", [
    "llvm -mcpu=x86-64-v3 -mattr=+avx512f,+avx512vnni", "llvm --mcpu x86-64-v3 --mattr +avx512f,+avx512vnni",
    {"kind": "llvm", "mcpu": "x86-64-v3", "mattr": ["+avx512f", "+avx512vnni"]},
    json.dumps({"kind": "llvm", "mcpu": "x86-64-v3", "mattr": ["+avx512f", "+avx512vnni"]})])
def test_forms_of_one_target(form: Any) -> None:
    target = Target.parse(form)
    assert target.has("avx512vnni") and target.vector_bits == 512
    assert target == Target.parse("llvm -mcpu=x86-64-v3 -mattr=+avx512vnni")
    assert Target.parse(target) is target


def test_rates_are_of_the_cpu_that_is_named() -> None:
    target = Target.parse("llvm -mcpu=x86-64-v4 -mtune=znver5")
    assert (target.cpu, target.tune) == ("x86-64-v4", "znver5") and "-mtune=znver5" in str(target)
    assert target.costs is X86_64.cpus["znver5"].rates
    assert Target.parse("llvm -mcpu=znver5 -mtune=znver5") == Target.parse("llvm -mcpu=znver5")
    assert Target.parse("llvm").tune in ("", host.cpu())


def test_bare_llvm_is_this_machine() -> None:
    target = Target.parse("llvm")
    assert target.features == host.features() and not target.missing_on_host()
    assert target == Target.parse() == Target.parse("llvm -mcpu=native")
    assert target.num_cores >= 1


@pytest.mark.parametrize("text", [
    "llvm", "llvm -mcpu=x86-64-v4 -mattr=-avx512f", "llvm -mcpu=x86-64-v2 -l2-cache=65536 -num-cores=3",
    "llvm -mtriple=aarch64-linux-gnu", "llvm -mtriple=arm64-linux-gnu -mcpu=neoverse-n1 -mattr=-dotprod", *TAGS])
def test_text_reads_back(text: str) -> None:
    target = Target.parse(text)
    assert Target.parse(str(target)) == target
    assert Target.parse(target.to_dict()) == target


def test_removing_a_feature_removes_what_needs_it() -> None:
    target = Target.parse("llvm -mcpu=znver4 -mattr=-avx512f")
    assert not any(f.startswith("avx512") for f in target.features) and target.has("avx2")
    assert Target.parse("llvm -mcpu=x86-64-v3 -mattr=-avx2").vector_bits == 128


def test_annotations_are_recorded_and_change_nothing() -> None:
    keys = {"kind": "llvm", "mcpu": "x86-64-v3", "keys": ["cpu"], "device": "board", "model": "resnet", "runtime": "c"}
    target = Target.parse(keys)
    assert dict(target.annotations) == {"keys": "cpu,board", "device": "board", "model": "resnet", "runtime": "c"}
    assert target == Target.parse("llvm -mcpu=x86-64-v3")


def test_caches_and_cores_have_an_effect() -> None:
    target = Target.parse("llvm -mcpu=x86-64-v3 -l1-cache=1024 -l3-cache=4096 -num-cores=7")
    assert (target.l1_cache, target.l3_cache, target.num_cores) == (1024, 4096, 7)
    assert target != Target.parse("llvm -mcpu=x86-64-v3 -num-cores=7")


def test_harmless_values_are_accepted() -> None:
    Target.parse({"kind": "llvm", "libs": [], "system-lib": False, "mfloat-abi": "hard", "mabi": "sysv", "host": "llvm"})


@pytest.mark.parametrize("form, message", [
    ("cuda", "kind 'cuda' is not supported"), ({"mcpu": "x86-64"}, "kind None"), ("", "expected text"), (7, "expected text"),
    ("llvm -libs=mkl", "libs"), ("llvm --system-lib", "system-lib"), ("llvm -mfloat-abi=soft", "mfloat-abi"),
    ("llvm -mabi=lp64d", "mabi"), ("llvm -mcpu=pentium9", "unknown mcpu 'pentium9'"),
    ("llvm -mtune=pentium9", "unknown mtune 'pentium9'"),
    ("llvm -mtriple=riscv64-linux-gnu", "no code generator for architecture 'riscv64'"),
    ("llvm -mtriple=aarch64-linux-gnu -mcpu=znver5", "unknown mcpu 'znver5'"),
    ("llvm -mtriple=aarch64-linux-gnu -mattr=+avx2", "no such aarch64 feature"),
    ("llvm -mattr=avx2", "expected '\\+feature'"), ("llvm -mattr=+warp", "no such x86-64 feature"),
    ("llvm -colour=red", "unknown key 'colour'"), ("nobody/nothing", "unknown tag"),
    ("llvm extra", "unexpected 'extra'"), ("llvm -mcpu", "has no value"), ("{broken", "not valid JSON"),
    ("llvm -num-cores=0", "positive integer"), ({"kind": "llvm", "mattr": 5}, "expected a list"),
    ({"kind": "llvm", "host": "raspberry-pi/5"}, "host is aarch64"), ("llvm 'open", "quotation")])
def test_mistakes_are_named(form: Any, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        Target.parse(form)


def test_another_architecture_is_never_the_host() -> None:
    target = Target.parse("raspberry-pi/5" if host.architecture() is X86_64 else "amd/zen5")
    assert target.architecture is (AARCH64 if host.architecture() is X86_64 else X86_64)
    assert target.missing_on_host() == target.features and not target.tune
    target.require_codegen()
    with pytest.raises(TargetError, match="mcpu 'native' is"):
        Target.parse(f"llvm -mtriple={target.triple} -mcpu=native")


@pytest.mark.parametrize("triple", [
    "x86_64-pc-windows-msvc", "x86_64-windows-msvc", "x86_64-apple-darwin", "x86_64-pc-freebsd", "x86_64-unknown-linux-gnux32",
    "x86_64-unknown-linux-gnu-macho", "x86_64", 'x86_64-linux-gnu"'])
def test_systems_without_a_linker_are_refused(triple: str) -> None:
    with pytest.raises(TargetError, match=r"no linker for the system of mtriple .* expected Linux, such as x86_64-linux-gnu"):
        Target.parse({"kind": "llvm", "mtriple": triple}).require_codegen()


@pytest.mark.parametrize("triple", [
    "x86_64-linux-gnu", "x86_64-unknown-linux-gnu", "x86_64-pc-linux", "x86_64-alpine-linux-musl", "x86_64-linux-android21"])
def test_linux_by_its_names(triple: str) -> None:
    Target.parse({"kind": "llvm", "mtriple": triple}).require_codegen()


@pytest.mark.parametrize("is_allowed", [False, True])
def test_tile_registers_are_used_where_the_system_lets_a_process_have_them(
    is_allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "flags : sse sse2 avx2 fma amx_tile amx_int8 amx_bf16 amx_fp16\n"
    tiles = frozenset({"amx-tile", "amx-int8", "amx-bf16", "amx-fp16"})
    monkeypatch.setattr(host, "_read", lambda path: text)
    monkeypatch.setattr(host, "architecture", lambda: replace(X86_64, refused=lambda: frozenset() if is_allowed else tiles))
    found = set(host.features.__wrapped__())
    assert tiles & found == (tiles if is_allowed else set()) and "avx2" in found


def test_cpuinfo_is_read() -> None:
    text = "processor: 0\nflags\t\t: fpu sse sse2 pni ssse3 sse4_1 avx512_vnni abm unknown_flag\nflags : none\n"
    assert set(X86_64.host_features(text)) == {"sse", "sse2", "sse3", "ssse3", "sse4.1", "avx512vnni", "lzcnt"}
    assert X86_64.host_features("") == AARCH64.host_features("") == ()
    assert set(AARCH64.host_features("processor : 0\nFeatures\t: fp asimd asimddp unknown\n")) == {"fp-armv8", "neon", "dotprod"}


def test_the_level_of_features() -> None:
    features = X86_64.cpus["x86-64-v3"].features
    assert X86_64.level_of(features) == "x86-64-v3"
    assert X86_64.level_of(set(features) - {"bmi"}) == "x86-64-v2"
