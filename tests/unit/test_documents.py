"""What there is to index: folders and files of chunks."""

from __future__ import annotations

import errno
import gzip
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
import zstandard

from pipeline.errors import ConfigurationError
from streams.indexing.chunks import Chunk
from streams.indexing.documents import MAX_BYTES, read_documents, read_source


def refusal(source: Path) -> str:
    """Return the line with which a source is refused, without the directory that is the test's own."""
    with pytest.raises(ConfigurationError) as caught:
        read_documents(source)
    line = str(caught.value)
    assert "\n" not in line
    return line.replace(f"{source.parent}{os.sep}", "")


def _denied(*_: object, **__: object) -> NoReturn:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


class TestFolder:
    """A folder of Markdown files."""

    def test_documents_come_in_the_order_of_their_paths(self, tmp_path: Path) -> None:
        """At any depth; the id is the path without suffix, the source the path."""
        for name in ("b.md", "a/z.markdown", "a/b/c.MD", "a.md", "note.txt"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(f"# {name}\n\ntext of {name}\n", encoding="utf-8")
        (tmp_path / "folder.md").mkdir()
        documents = read_documents(tmp_path)
        assert [document.doc_id for document in documents] == ["a/b/c", "a/z", "a", "b"]
        assert [document.chunks[0].source for document in documents] == [
            "a/b/c.MD",
            "a/z.markdown",
            "a.md",
            "b.md",
        ]
        assert [document.chunks[0].doc_id for document in documents] == ["a/b/c", "a/z", "a", "b"]
        assert documents[3].chunks[0].content == "text of b.md"

    def test_blank_document_is_there_without_chunks(self, tmp_path: Path) -> None:
        """A document that has become blank must lose the chunks it had."""
        (tmp_path / "blank.md").write_text("\n")
        [document] = read_documents(tmp_path)
        assert (document.doc_id, document.chunks) == ("blank", ())

    def test_two_files_with_one_id_are_refused(self, tmp_path: Path) -> None:
        """One would delete the other's chunks."""
        (tmp_path / "same.md").write_text("text")
        (tmp_path / "same.markdown").write_text("text")
        with pytest.raises(ConfigurationError, match=r"same\.md: has the same id as .*same\.markdown: same$"):
            read_documents(tmp_path)

    def test_file_that_is_not_utf8_is_refused(self, tmp_path: Path) -> None:
        """The line names the file."""
        (tmp_path / "latin.md").write_bytes("é".encode("latin-1"))
        with pytest.raises(ConfigurationError, match=r"latin\.md': the file or its name is not UTF-8$"):
            read_documents(tmp_path)

    def test_name_that_is_not_utf8_is_refused(self, tmp_path: Path) -> None:
        """Such an id could not be stored."""
        (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("text")
        with pytest.raises(ConfigurationError, match=r"not UTF-8$"):
            read_documents(tmp_path)

    def test_blank_name_is_refused(self, tmp_path: Path) -> None:
        """A blank id finds nothing again."""
        (tmp_path / " .md").write_text("text")
        with pytest.raises(ConfigurationError, match=r"/ \.md': a blank name cannot be an id$"):
            read_documents(tmp_path)

    def test_file_that_cannot_be_read_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The line has the operating system's words."""
        (tmp_path / "a.md").write_text("text")
        monkeypatch.setattr(Path, "read_text", _denied)
        with pytest.raises(ConfigurationError, match=r"a\.md: cannot be read: Permission denied$"):
            read_documents(tmp_path)

    def test_folder_without_markdown_is_refused(self, tmp_path: Path) -> None:
        """A slip in the path must not pass for an empty source."""
        folder = tmp_path / "empty"
        folder.mkdir()
        assert refusal(folder) == "empty: no Markdown files (.md, .markdown, .mdx) in it"

    def test_missing_source_is_refused(self, tmp_path: Path) -> None:
        """The line names what is missing."""
        assert refusal(tmp_path / "nowhere") == "nowhere: no such file or folder"


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "zstd of two frames": lambda text: zstandard.compress(text[:9]) + zstandard.compress(text[9:]),
}

LINE = {"docId": "d", "chunkIndex": 0, "content": "text"}


class TestFileOfChunks:
    """A file with one chunk a line."""

    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        """Where the file will be."""
        return tmp_path / "chunks.jsonl"

    def write(self, file: Path, *lines: object) -> None:
        """Write the file: strings as they are, anything else as JSON."""
        file.write_text(
            "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines), encoding="utf-8"
        )

    def test_line_is_a_chunk(self, file: Path) -> None:
        """Every field goes where it belongs, and what is not known by name is metadata."""
        full = {
            **LINE,
            "source": "a.md",
            "title": "T",
            "breadcrumb": "T > S",
            "vector": [1, 0.5],
            "team": "blue",
            "tags": ["x"],
        }
        self.write(file, full)
        [document] = read_documents(file)
        assert document.chunks == (
            Chunk(
                doc_id="d",
                chunk_index=0,
                content="text",
                source="a.md",
                title="T",
                breadcrumb="T > S",
                vector=(1.0, 0.5),
                extra={"team": "blue", "tags": ["x"]},
            ),
        )

    def test_names_and_types_of_identity_are_those_of_hits(self, file: Path) -> None:
        """Both spellings count, numbers are ids, strings of digits indices; optional fields may be null."""
        self.write(
            file,
            {"doc_id": 42, "chunk_index": "7", "content": "a", "source": None, "vector": None},
            {"docId": 42.0, "chunkIndex": 8.0, "content": "b"},
        )
        [document] = read_documents(file)
        assert [(chunk.doc_id, chunk.chunk_index) for chunk in document.chunks] == [("42", 7), ("42", 8)]

    def test_chunks_are_gathered_by_document(self, file: Path) -> None:
        """Lines may come in any order; blank ones do not count."""
        lines = [{**LINE, "docId": doc, "chunkIndex": index} for doc, index in (("b", 1), ("a", 0), ("b", 0))]
        self.write(file, lines[0], "", lines[1], "  ", lines[2], "")
        documents = read_documents(file)
        assert [(each.doc_id, [chunk.chunk_index for chunk in each.chunks]) for each in documents] == [
            ("b", [1, 0]),
            ("a", [0]),
        ]

    @pytest.mark.parametrize(
        ("line", "complaint"),
        [
            ("{", "is not JSON: "),
            ("[1]", "must be a JSON object, not list"),
            ({**LINE, "score": float("nan")}, "score = nan: has NaN or Infinity, which are not JSON"),
            ({**LINE, "a": {"b": [-math.inf]}}, "a = {'b': [-inf]}: has NaN or Infinity"),
            ({**LINE, "vector": [1, math.nan]}, "vector = [1, nan]: must be a list of finite numbers"),
            ({**LINE, "vector": [1, 1e39]}, "vector = [1, 1e+39]: must be a list of finite numbers within"),
            ({**LINE, "chunkIndex": 2**63}, "must be an integer of 0 or more, at most 9,223,372,036,854,775"),
            ({**LINE, "chunkIndex": 10**400}, "must be an integer of 0 or more, at most"),
            ({**LINE, "n": [2**63]}, "n = [9223372036854775808]: has an integer of more than 64 bits"),
            ({**LINE, "t": {"\ud800": 1}}, "has a lone surrogate, which is not Unicode text"),
            ({**LINE, "docId": "\ud800"}, "docId = '\\ud800': must be"),
            ('{"docId": "d", "docId": "e"}', "docId occurs twice in one object"),
            ('{"docId": "d", "a": {"b": 1, "b": 2}}', "b occurs twice in one object"),
            ({**LINE, "a": json.loads("[" * 200 + "]" * 200)}, "is nested more than 100 deep"),
            ("[" * 100_000, "is not JSON: "),
            ({"chunkIndex": 0, "content": "x"}, "docId is missing: must be an integer, or a string"),
            ({**LINE, "docId": " "}, "docId = ' ': must be an integer, or a string that is not blank"),
            ({**LINE, "docId": True}, "docId = True: must be"),
            ({**LINE, "docId": "x" * MAX_BYTES}, f"docId = '{'x' * 59}…: must be"),
            ({"doc_id": [], "chunkIndex": 0, "content": "x"}, "doc_id = []: must be"),
            ({"docId": "d", "content": "x"}, "chunkIndex is missing: must be an integer of 0 or more"),
            ({**LINE, "chunkIndex": -1}, "chunkIndex = -1: must be an integer of 0 or more"),
            ({**LINE, "chunkIndex": 1.5}, "chunkIndex = 1.5: must be"),
            ({**LINE, "chunkIndex": False}, "chunkIndex = False: must be"),
            ({"docId": "d", "chunkIndex": 0}, "content is missing: must be a string that is not blank"),
            ({**LINE, "content": "\n"}, "content = '\\n': must be a string that is not blank"),
            ({**LINE, "content": "é" * MAX_BYTES}, "up to 65,535 bytes"),
            ({**LINE, "title": 7}, "title = 7: must be a string"),
            ({**LINE, "source": ["a"]}, "source = ['a']: must be a string"),
            ({**LINE, "vector": []}, "vector = []: must be a list of finite numbers"),
            ({**LINE, "vector": "1,2"}, "vector = '1,2': must be a list of finite numbers"),
            ({**LINE, "vector": [1, True]}, "vector = [1, True]: must be a list of finite numbers"),
            (
                {**LINE, "vector": [1, 2, 3]},
                "vector = [1, 2, 3]: must have 2 numbers, as on the lines before, not 3",
            ),
            ({**LINE, "note": "x" * MAX_BYTES}, "the metadata are longer than 65,535 bytes of JSON"),
        ],
    )
    def test_bad_line_is_refused(self, file: Path, line: object, complaint: str) -> None:
        """The line names file, line, field and value, and what is allowed."""
        self.write(file, {**LINE, "docId": "first", "vector": [1, 2]}, "", line)
        shown = refusal(file)
        assert shown.startswith("chunks.jsonl, line 3: ")
        assert complaint in shown

    def test_repeated_chunk_is_refused(self, file: Path) -> None:
        """One would replace the other."""
        self.write(file, LINE, {**LINE, "chunkIndex": 1}, {"doc_id": "d", "chunk_index": "0", "content": "y"})
        assert refusal(file) == "chunks.jsonl, line 3: chunk 0 of document 'd' is on line 1 already"

    def test_file_without_chunks_is_refused(self, file: Path) -> None:
        """An empty file is a slip."""
        self.write(file, "", " ")
        assert refusal(file) == "chunks.jsonl: no chunks in it"

    def test_file_that_cannot_be_read_is_refused(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The line has the operating system's words."""
        self.write(file, LINE)
        monkeypatch.setattr(Path, "read_bytes", _denied)
        assert refusal(file) == "chunks.jsonl: cannot be read: Permission denied"

    def test_bytes_that_are_not_utf8_are_refused(self, file: Path) -> None:
        """The line's number is told for these too."""
        file.write_bytes(json.dumps(LINE).encode() + b'\n{"docId": "\xe9"}')
        assert refusal(file).startswith("chunks.jsonl, line 2: is not JSON: ")

    @pytest.mark.parametrize("number", [2**53 + 1, 2**64, 12345678901234567890123456789])
    def test_integer_id_is_kept_exactly(self, file: Path, number: int) -> None:
        """An id must find its document again, however many digits it has."""
        self.write(file, {**LINE, "docId": number})
        assert read_documents(file)[0].doc_id == str(number)

    @pytest.mark.parametrize("compress", COMPRESSIONS.values(), ids=COMPRESSIONS)
    def test_file_may_be_compressed(self, file: Path, compress: Callable[[bytes], bytes]) -> None:
        """Whatever its name; a byte order mark, blank lines and the line ends of Windows do not count."""
        lines = f"{json.dumps(LINE)}\r\n\r\n{json.dumps({**LINE, 'chunkIndex': 1})}\r\n"
        file.write_bytes(compress(f"\ufeff{lines}".encode()))
        [document] = read_documents(file)
        assert [chunk.chunk_index for chunk in document.chunks] == [0, 1]

    @pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])
    def test_compressed_file_that_is_cut_short_is_refused(
        self, file: Path, compress: Callable[[bytes], bytes]
    ) -> None:
        """Half of the chunks must not pass for all of them."""
        file.write_bytes(compress("\n".join(map(str, range(9_999))).encode())[:-20])
        assert refusal(file).startswith("chunks.jsonl: cannot be decompressed: ")

    @pytest.mark.parametrize("text", ['[{"docId": "d"}]', "[\n{},\n{}\n]"])
    def test_array_is_named_for_what_it_is(self, file: Path, text: str) -> None:
        """The line says what to write instead."""
        file.write_text(text)
        assert refusal(file).startswith(
            "chunks.jsonl: is a JSON array, not JSON Lines: write one object a line"
        )

    def test_vector_must_fit_the_collection(self, file: Path) -> None:
        """The line is named where the collection's dimension is known."""
        self.write(file, LINE, {**LINE, "chunkIndex": 1, "vector": [1, 2]})
        with pytest.raises(ConfigurationError, match=r"line 2: vector = .* must have 3 numbers, as in the"):
            read_source(file, dimension=3)

    def test_markdown_file_is_refused(self, tmp_path: Path) -> None:
        """It is no file of chunks."""
        file = tmp_path / "a.md"
        file.write_text("text")
        assert refusal(file) == "a.md: is Markdown: name the folder that it is in"
