"""A damaged or foreign file is no flow, and the error says which file and why."""

import json
import os
import re
import struct
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from flow_cases import CASES
from plmcmc.flows import FileError, Linear, Preprocessed, load, save
from plmcmc.imputation import FlowImputer
from rehashed import edit, hashed, rehash


@pytest.fixture
def saved(tmp_path) -> Path:
    return save(CASES["all steps"](), tmp_path / "flow")


def truncate(path: Path, name: str, share: float) -> None:
    whole = (path / name).read_bytes()
    (path / name).write_bytes(whole[: int(share * len(whole))])


def reweigh(path: Path, change) -> None:
    """Change the weights of a saved flow, and hash them again."""
    tensors = load_file(path / "weights.safetensors")
    change(tensors)
    save_file(tensors, path / "weights.safetensors")
    rehash(path)


def lengthen(path: Path) -> None:
    weights = path / "weights.safetensors"
    weights.write_bytes(weights.read_bytes() + b"x")


def flip(path: Path, name: str) -> None:
    """Change one bit, in the middle."""
    content = bytearray((path / name).read_bytes())
    content[len(content) // 2] ^= 4
    (path / name).write_bytes(content)


def with_text(text: str | bytes):
    content = text if isinstance(text, bytes) else text.encode()
    return lambda path: (path / "config.json").write_bytes(content)


def with_weights(content: bytes):
    def change(path: Path) -> None:
        (path / "weights.safetensors").write_bytes(content)
        rehash(path)

    return change


def of_flow(**config):
    size = {"couplings": 2, "depth": 1, "width": 8, "activation": "relu"}
    return {"name": "nice", "config": {"features": 4, "latent": "normal"} | size | config}


GLOW = {"shape": [1, 4, 4], "width": 4, "coupling": "affine", "activation": "relu"}
GLOW |= {"spare_memory": False}


def before(*steps):
    return {"name": "preprocessed", "steps": list(steps), "flow": of_flow()}


def wrapped(flow, times: int):
    for _ in range(times):
        flow = {"name": "preprocessed", "steps": [], "flow": flow}
    return flow


LARGE = 10**9
DAMAGE = {
    "weights cut short": (lambda p: truncate(p, "weights.safetensors", 0.7), "weights.*bytes"),
    "weights empty": (lambda p: truncate(p, "weights.safetensors", 0), "weights.*bytes; got 0"),
    "weights missing": (
        lambda p: (p / "weights.safetensors").unlink(),
        r"file weights\.safetensors is missing",
    ),
    "weights longer": (
        lengthen,
        r"weights\.safetensors: expected at most \d+ bytes; got",
    ),
    "a bit of the weights": (
        lambda p: flip(p, "weights.safetensors"),
        r"weights\.safetensors does not match its hash in config\.json, weights\.sha256",
    ),
    "weights of other shapes": (
        lambda p: reweigh(p, lambda t: t.update({"flow.shift": torch.zeros(2, 2)})),
        r"weights\.safetensors, flow\.shift: expected torch.float32 of \(4,\); got .*\(2, 2\)",
    ),
    "weights of another precision": (
        lambda p: reweigh(p, lambda t: t.update({"flow.shift": torch.zeros(4).double()})),
        r"flow\.shift: expected torch.float32 of \(4,\); got torch.float64",
    ),
    "a weight missing": (lambda p: reweigh(p, lambda t: t.pop("flow.shift")), "numbers, and"),
    "a weight of another name": (
        lambda p: reweigh(p, lambda t: t.update({"shift": t.pop("flow.shift")})),
        r"weights\.safetensors: '(flow\.)?shift' is (missing|unexpected)",
    ),
    "an order that is none": (
        lambda p: reweigh(p, lambda t: t["flow.orders"].fill_(1)),
        "orders is not a permutation of 4 columns",
    ),
    "an order beyond": (
        lambda p: reweigh(p, lambda t: t["flow.orders"].add_(2**40)),
        "orders is not a permutation of 4 columns",
    ),
    "a scale of 0": (lambda p: reweigh(p, lambda t: t["steps.2.scale"].zero_()), "scale must be"),
    "a header beyond the file": (with_weights((2**20).to_bytes(8, "little") + b"{}"), "damaged"),
    "a header of many names": (with_weights((2**40).to_bytes(8, "little") + b"{}"), "a header of"),
    "description cut short": (lambda p: truncate(p, "config.json", 0.7), "config.json is not JSON"),
    "description empty": (lambda p: truncate(p, "config.json", 0), "config.json is not JSON"),
    "a bit of the description": (lambda p: flip(p, "config.json"), "config.json"),
    "a number changed": (
        lambda p: with_text((p / "config.json").read_text().replace("16", "17"))(p),
        r"config\.json, sha256: the rest of the file does not match this hash",
    ),
    "description missing": (
        lambda p: (p / "config.json").unlink(),
        r"not a saved.*no config\.json",
    ),
    "description not text": (with_text(b"\xff\xfe\x00"), "config.json is not JSON.*utf-8"),
    "description a list": (with_text("[1]"), r"config\.json: expected an object; got \[1\]"),
    "description a number": (with_text("1"), "expected an object; got 1"),
    "description deep": (with_text("[" * 10**5), "config.json is not JSON.*nested too deeply"),
    "deep objects": (with_text('{"a":' * 10**5), "config.json is not JSON.*nested too deeply"),
    "NaN": (with_text('{"version": NaN}'), "NaN is not a number in JSON"),
    "infinity": (with_text('{"version": -Infinity}'), "-Infinity is not a number in JSON"),
    "overflow": (with_text('{"version": 1e999}'), "1e999 is not a finite number"),
    "a long number": (with_text('{"version": ' + "9" * 10**5 + "}"), "a number of 100000 digits"),
    "a name twice": (with_text('{"version": 1, "version": 2}'), "duplicate key 'version'"),
    "description large": (
        with_text(b" " * (2**24 + 1)),
        r"config\.json: expected at most \d+ bytes",
    ),
    "other format": (lambda p: edit(p, format="onnx"), r"not a plmcmc-flow: .*says format 'onnx'"),
    "older version": (
        lambda p: edit(p, version=1),
        "a plmcmc-flow of version 1, but this plmcmc reads version 2: load it with",
    ),
    "no version": (lambda p: edit(p, version=None), "a plmcmc-flow of version None"),
    "version a truth": (lambda p: edit(p, version=True), "a plmcmc-flow of version True"),
    "unknown flow": (
        lambda p: edit(p, flow={"name": "spline", "config": {}}),
        r"config\.json, flow\.name: expected one of linear, nice, .*; got 'spline'",
    ),
    "a flow by its module": (
        lambda p: edit(p, flow={"name": "os.system", "config": {"command": "id"}}),
        r"flow\.name: expected one of .*; got 'os.system'",
    ),
    "unknown parameter": (lambda p: edit(p, flow=of_flow(colour=1)), "unknown field 'colour'"),
    "parameter missing": (
        lambda p: edit(p, flow={"name": "linear", "config": {"features": 4}}),
        r"flow\.config\.latent is missing",
    ),
    "wrong parameter": (
        lambda p: edit(p, flow=of_flow(features=4.5)),
        "features: expected a whole",
    ),
    "a truth for a number": (
        lambda p: edit(p, flow=of_flow(width=True)),
        "width: expected a whole",
    ),
    "a billion columns": (lambda p: edit(p, flow=of_flow(features=LARGE)), "a flow of .* numbers"),
    "a wide flow": (lambda p: edit(p, flow=of_flow(width=10**30)), "a flow of .* numbers"),
    "many layers": (
        lambda p: edit(p, flow=of_flow(couplings=LARGE)),
        f"at least {LARGE} layers",
    ),
    "deep networks": (lambda p: edit(p, flow=of_flow(depth=LARGE)), "layers, and weights"),
    "a deep image": (
        lambda p: edit(p, flow={"name": "glow", "config": {**GLOW, "levels": LARGE, "steps": 0}}),
        "levels: expected at most 32",
    ),
    "a wide step": (
        lambda p: edit(p, flow=before({"name": "whiten", "config": {"shape": [LARGE, LARGE]}})),
        "a flow of .* numbers",
    ),
    "a strange shape": (
        lambda p: edit(p, flow=before({"name": "flatten", "config": {"shape": [2, -2]}})),
        r"shape: expected a few sizes; got \[2, -2\]",
    ),
    "many steps": (
        lambda p: edit(p, flow=before(*[{"name": "channels-first", "config": {}}] * 1000)),
        "too many steps",
    ),
    "steps in steps": (lambda p: edit(p, flow=wrapped(of_flow(), 50)), "too many steps"),
    "no flow": (lambda p: edit(p, flow=None), "flow: expected an object; got None"),
    "unknown step": (
        lambda p: edit(p, flow=before({"name": "blur", "config": {}})),
        r"flow\.steps\[0\]\.name: expected one of whiten, .*; got 'blur'",
    ),
    "unknown precision": (lambda p: edit(p, dtype="float7"), "dtype: expected one of float32"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_flow_is_refused_by_name(damage, message, saved):
    damage(saved)
    with pytest.raises(FileError, match=rf"(?s)^{saved} is .*{message}") as found:
        load(saved)
    # Every message says what to do.
    assert re.search("Get another copy|load it with|is not a", str(found.value))


def test_what_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(
        FileError, match=f"{tmp_path}/nowhere is not a saved flow: it does not exist"
    ):
        load(tmp_path / "nowhere")


def test_the_undamaged_flow_loads(saved):
    assert isinstance(load(saved), Preprocessed)


def test_a_pipe_is_not_waited_for(saved):
    (saved / "weights.safetensors").unlink()
    os.mkfifo(saved / "weights.safetensors")
    with pytest.raises(FileError, match=r"file weights\.safetensors is missing"):
        load(saved)


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_nor_is_one_in_the_place_of_a_model(name, tmp_path):
    os.mkfifo(tmp_path / name)
    for loader in (load, FlowImputer.load):
        with pytest.raises(
            FileError, match="expected a directory or a regular file; this is a pipe"
        ):
            loader(tmp_path / name)
    with pytest.raises(FileExistsError, match="is not a saved flow"):
        save(Linear(2), tmp_path / name, overwrite=True)


class TestArchive:
    """Archives hold the same two files; all that a zip could do beside is refused."""

    @pytest.fixture
    def contents(self, saved):
        return {
            name: (saved / name).read_bytes() for name in ("config.json", "weights.safetensors")
        }

    @pytest.fixture
    def path(self, tmp_path):
        return tmp_path / "flow.zip"

    def packed(self, path, entries, method=zipfile.ZIP_STORED):
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
            # zipfile itself warns of a name that stands there twice.
            warnings.simplefilter("ignore")
            for name, content in entries:
                archive.writestr(name, content)
        return path

    def refused(self, path, message):
        with pytest.raises(FileError, match=rf"(?s)^{path} .*{message}"):
            load(path)

    def test_as_any_program_packs_it_without_compression(self, path, contents):
        """Negative control of all that follows."""
        assert isinstance(load(self.packed(path, contents.items())), Preprocessed)

    @pytest.mark.parametrize(
        "name", ["../config.json", "/config.json", "flow/config.json", "CONFIG.JSON", "x\\y"]
    )
    def test_other_names(self, path, contents, name, tmp_path):
        more = [*contents.items(), (name, b"x")]
        self.refused(self.packed(path, more), "expected config.json and weights.safetensors, once")
        instead = [(name, contents["config.json"]), *list(contents.items())[1:]]
        self.refused(self.packed(path, instead), "expected config.json and weights.safetensors")
        assert {entry.name for entry in tmp_path.iterdir()} == {"flow", "flow.zip"}

    def test_a_name_twice(self, path, contents):
        self.refused(self.packed(path, [*contents.items(), *contents.items()]), "once each")

    def test_a_link(self, path, contents):
        link = zipfile.ZipInfo("config.json")
        link.external_attr = 0o120777 << 16
        entries = [(link, b"/etc/passwd"), ("weights.safetensors", b"")]
        self.refused(self.packed(path, entries), "config.json is a link")

    def test_compressed(self, path, contents):
        bomb = {"config.json": b" " * 2**24, "weights.safetensors": b""}
        packed = self.packed(path, bomb.items(), zipfile.ZIP_DEFLATED)
        assert packed.stat().st_size < 2**15
        self.refused(
            packed, "config.json is compressed, but plmcmc writes uncompressed archives: unpack it"
        )

    def test_encrypted(self, path, contents):
        content = bytearray(self.packed(path, contents.items()).read_bytes())
        content[content.index(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(content)
        # Not in zipfile's own words.
        self.refused(path, "config.json is encrypted: unpack it")

    @pytest.mark.parametrize("offset", [20, 24])
    def test_sizes_that_are_not_there(self, path, contents, offset):
        content = bytearray(self.packed(path, contents.items()).read_bytes())
        for place in (20, 24) if offset == 20 else (offset,):
            start = content.index(b"PK\x01\x02") + place
            content[start : start + 4] = struct.pack("<I", 2**31)
        path.write_bytes(content)
        self.refused(path, "larger than the archive|is compressed")

    def test_many_entries(self, path):
        entries = [(f"{n}", b"") for n in range(2000)]
        self.refused(self.packed(path, entries), "lists many more")

    def test_a_second_directory_as_archives_over_4_gb_have_it(self, path, contents):
        content = bytearray(self.packed(path, contents.items()).read_bytes())
        end = content.rindex(b"PK\x05\x06")
        content[end:end] = b"PK\x06\x07" + bytes(16)
        path.write_bytes(content)
        self.refused(path, "lists many more")

    def test_a_bit_of_the_contents(self, path, contents):
        content = bytearray(self.packed(path, contents.items()).read_bytes())
        content[content.index(b"PK\x01\x02") - 5] ^= 1
        path.write_bytes(content)
        self.refused(path, "Bad CRC-32 for file 'weights.safetensors'")

    @pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.99])
    def test_cut_short(self, path, contents, share):
        content = self.packed(path, contents.items()).read_bytes()
        path.write_bytes(content[: int(share * len(content))])
        self.refused(path, "not a zip archive, or was truncated")

    def test_hashes_count_here_too(self, path, contents):
        other = contents | {"weights.safetensors": contents["weights.safetensors"][:-4] + b"abcd"}
        self.refused(self.packed(path, other.items()), "does not match its hash")

    def test_a_large_description(self, path, contents):
        other = contents | {"config.json": b" " * (2**24 + 1)}
        self.refused(self.packed(path, other.items()), "config.json: expected at most .* bytes")

    def test_a_billion_weights(self, path, contents):
        config = json.loads(contents["config.json"]) | {"flow": of_flow(features=LARGE)}
        weights = contents["weights.safetensors"]
        entries = [("config.json", hashed(config, weights)), ("weights.safetensors", weights)]
        self.refused(self.packed(path, entries), "a flow of .* numbers")
