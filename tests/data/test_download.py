"""Downloads from servers on the loopback address, each with its own way of going wrong."""

import dataclasses
import io
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from felbo.data import REGISTRY, CorruptDataError, DownloadError, fetch, load
from felbo.data.download import download_file
from felbo.data.registry import DataFile

from .stand_ins import cifar_bytes, lay_out, md5

CONTENT = np.random.default_rng(0).bytes(300_000)
FILE = DataFile("file.bin", md5(CONTENT))


class Server:
    """Serves `contents` by name; can ignore ranges, cut a response short, or answer an error."""

    def __init__(self, contents, *, ranges=True, cut_after=None, status=None):
        self.contents, self.ranges, self.cut_after, self.status = (
            contents,
            ranges,
            cut_after,
            status,
        )
        self.requests = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/"

    def answer(self, handler):
        wanted = handler.headers.get("Range")
        self.requests.append((handler.path[1:], wanted))
        content = self.contents.get(handler.path[1:])
        if self.status or content is None:
            handler.send_error(self.status or 404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        if not self.ranges:
            start = 0
        if start and start >= len(content):
            handler.send_error(416)
            return
        handler.send_response(206 if start else 200)
        handler.send_header("Content-Length", str(len(content) - start))
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        handler.end_headers()
        handler.wfile.write(content[start : self.cut_after])

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture
def serve():
    servers = []

    def start(contents=None, **kwargs):
        servers.append(Server({"file.bin": CONTENT} if contents is None else contents, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_good_file_arrives_whole_and_alone(serve, tmp_path):
    server = serve()
    path = download_file(FILE, (server.url,), tmp_path)
    assert path.read_bytes() == CONTENT
    assert names_in(tmp_path) == ["file.bin"]
    assert server.requests == [("file.bin", None)]


def test_a_file_that_is_there_and_good_is_not_asked_for(serve, tmp_path):
    server = serve()
    (tmp_path / "file.bin").write_bytes(CONTENT)
    download_file(FILE, (server.url,), tmp_path)
    assert server.requests == []


def test_content_with_another_hash_is_thrown_away(serve, tmp_path):
    server = serve({"file.bin": CONTENT[:-1] + b"!"})
    with pytest.raises(DownloadError, match=rf"file\.bin.*published md5 {FILE.md5}") as caught:
        download_file(FILE, (server.url,), tmp_path)
    assert server.url in str(caught.value)
    assert names_in(tmp_path) == []


def test_a_bad_file_stays_until_a_good_one_replaces_it(serve, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"old")
    with pytest.raises(DownloadError):
        download_file(FILE, (serve({"file.bin": b"forged"}).url,), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == b"old"
    download_file(FILE, (serve().url,), tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("broken", ["closed port", "status 503", "wrong content", "missing"])
def test_the_next_mirror_is_tried(serve, tmp_path, broken):
    first = {
        "closed port": lambda: "http://127.0.0.1:9/",
        "status 503": lambda: serve(status=503).url,
        "wrong content": lambda: serve({"file.bin": b"forged"}).url,
        "missing": lambda: serve({}).url,
    }[broken]()
    path = download_file(FILE, (first, serve().url), tmp_path)
    assert path.read_bytes() == CONTENT
    assert names_in(tmp_path) == ["file.bin"]


def test_an_interrupted_download_carries_on_where_it_stopped(serve, tmp_path):
    with pytest.raises(DownloadError, match="interrupted downloads are resumed"):
        download_file(FILE, (serve(cut_after=200_000).url,), tmp_path)
    assert names_in(tmp_path) == ["file.bin.part"]
    have = (tmp_path / "file.bin.part").stat().st_size
    assert 0 < have <= 200_000
    server = serve()
    path = download_file(FILE, (server.url,), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requests == [("file.bin", f"bytes={have}-")]
    assert names_in(tmp_path) == ["file.bin"]


def test_the_next_mirror_carries_on_within_one_call(serve, tmp_path):
    second = serve()
    path = download_file(FILE, (serve(cut_after=200_000).url, second.url), tmp_path)
    assert path.read_bytes() == CONTENT
    ((_, wanted),) = second.requests
    assert wanted.startswith("bytes=")


def test_a_server_without_ranges_sends_it_all_again(serve, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    path = download_file(FILE, (serve(ranges=False).url,), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_part_that_is_already_whole_is_used(serve, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    path = download_file(FILE, (serve().url,), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_link_under_the_name_of_the_part_is_not_followed(serve, tmp_path):
    elsewhere = tmp_path / "precious"
    elsewhere.write_bytes(b"untouched")
    folder = tmp_path / "sets"
    folder.mkdir()
    (folder / "file.bin.part").symlink_to(elsewhere)
    download_file(FILE, (serve({"file.bin": CONTENT}).url,), folder)
    assert elsewhere.read_bytes() == b"untouched"
    assert (folder / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("length", [1000, 300_000, 400_000])
def test_a_bad_part_does_not_condemn_a_good_mirror(serve, tmp_path, length):
    (tmp_path / "file.bin.part").write_bytes(b"\0" * length)
    server = serve()
    path = download_file(FILE, (server.url,), tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requests == [("file.bin", f"bytes={length}-"), ("file.bin", None)]


def test_fetch_gets_what_is_missing_or_bad_and_load_reads_it(
    serve, tiny_mnist, tmp_path, monkeypatch
):
    info, contents = tiny_mnist
    server = serve(contents)
    monkeypatch.setitem(REGISTRY, "mnist", dataclasses.replace(info, mirrors=(server.url,)))
    good, bad = "train-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz"
    lay_out(tmp_path, info, {good: contents[good], bad: b"damaged"})
    assert fetch("mnist", tmp_path) == tmp_path / "mnist"
    assert {name for name, _ in server.requests} == set(contents) - {good}
    assert load("mnist", "test", tmp_path, download=False).labels.tolist() == [0, 1, 2]


def test_load_downloads_what_is_missing(serve, tiny_mnist, tmp_path, monkeypatch):
    info, contents = tiny_mnist
    mirrors = (serve(contents).url,)
    monkeypatch.setitem(REGISTRY, "mnist", dataclasses.replace(info, mirrors=mirrors))
    assert load("mnist", "train", tmp_path / "new").labels.tolist() == [0, 1, 2, 3, 4, 5]


def test_processes_that_fetch_at_once_download_once(serve, tiny_mnist, tmp_path, monkeypatch):
    info, contents = tiny_mnist
    server = serve(contents)
    monkeypatch.setitem(REGISTRY, "mnist", dataclasses.replace(info, mirrors=(server.url,)))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: fetch("mnist", tmp_path), range(4)))
    assert sorted(name for name, _ in server.requests) == sorted(contents)


def tiny_cifar(forged=False):
    """CIFAR-10 with two images a batch, and the archive that holds it."""
    rng = np.random.default_rng(1)
    info = REGISTRY["cifar10"]
    contents = {
        file.name: cifar_bytes(rng.integers(0, 256, (2, 3072), dtype=np.uint8), [index, index + 1])
        for index, file in enumerate(info.files)
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in {**contents, "readme.html": b"hello"}.items():
            member = tarfile.TarInfo(f"{info.folder}/{name}")
            content = b"forged" if forged and name == "data_batch_3" else content
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))

    def hashed(files):
        return tuple(DataFile(file.name, md5(contents[file.name])) for file in files)

    tiny = dataclasses.replace(
        info,
        train=hashed(info.train),
        test=hashed(info.test),
        extra=hashed(info.extra),
        archive=DataFile("cifar-10-python.tar.gz", md5(packed.getvalue())),
        num_train=10,
        num_test=2,
    )
    return tiny, packed.getvalue()


def test_an_archive_is_fetched_unpacked_and_removed(serve, tmp_path, monkeypatch):
    info, packed = tiny_cifar()
    server = serve({"cifar-10-python.tar.gz": packed})
    monkeypatch.setitem(REGISTRY, "cifar10", dataclasses.replace(info, mirrors=(server.url,)))
    train = load("cifar10", "train", tmp_path)
    assert train.labels.tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert train.images.shape == (10, 3, 32, 32)
    assert names_in(tmp_path) == ["cifar-10-batches-py"]
    unpacked = set(names_in(tmp_path / "cifar-10-batches-py")) - {".fetch.lock"}
    assert unpacked == {file.name for file in info.files}
    fetch("cifar10", tmp_path)
    assert len(server.requests) == 1


def test_an_archive_put_there_by_hand_needs_no_network_and_is_kept(tmp_path, monkeypatch):
    info, packed = tiny_cifar()
    monkeypatch.setitem(REGISTRY, "cifar10", info)
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(packed)
    assert load("cifar10", "test", tmp_path).labels.tolist() == [5, 6]
    assert (tmp_path / "cifar-10-python.tar.gz").exists()


def test_an_archive_with_a_forged_member_is_refused(serve, tmp_path, monkeypatch):
    info, packed = tiny_cifar(forged=True)
    mirrors = (serve({"cifar-10-python.tar.gz": packed}).url,)
    monkeypatch.setitem(REGISTRY, "cifar10", dataclasses.replace(info, mirrors=mirrors))
    with pytest.raises(CorruptDataError, match=r"member cifar-10-batches-py/data_batch_3.*felbo"):
        load("cifar10", "train", tmp_path)
    assert not (tmp_path / "cifar-10-batches-py" / "data_batch_3").exists()
