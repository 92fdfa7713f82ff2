"""What a reader must find: the method in one sitting, and no private names of torch."""

import ast
import io
import re
import sys
import tokenize
from pathlib import Path

import pytest
import torch

import felbo

SOURCE = Path(felbo.__file__).parent
METHOD = [SOURCE / "objectives/function_space.py", *sorted((SOURCE / "dirichlet").glob("*.py"))]
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def lines_of_code(source):
    """Count lines that are neither blank, comment nor docstring."""
    documented = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            documented |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE and token.string:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def test_lines_are_counted():
    documented = '"""Page.\n\nMore."""\n\n\ndef f():\n    """Say."""\n    # why\n'
    assert lines_of_code(documented + "    return [\n        1,  # one\n    ]\n") == 1 + 3


def test_the_method_can_be_read_in_one_sitting():
    counts = {path.name: lines_of_code(path.read_text()) for path in METHOD}
    assert sum(counts.values()) <= 500, counts
    assert max(counts.values()) <= 200, counts


@pytest.mark.parametrize("implementation", ["plain", "fused"])
def test_from_fit_to_the_gradient_calls_pass_through_few_files(implementation):
    model = felbo.Ensemble(lambda: felbo.networks.mlp(4, (8,), 3), members=2)
    objective = felbo.FunctionSpaceELBO(
        felbo.UniformPrior(3), num_data=60, kl_weight=0.01, implementation=implementation
    )
    data = torch.randn(60, 4), torch.arange(60) % 3
    deepest: list[str] = []

    def look(frame, event, _):
        if event == "call" and str(SOURCE) in frame.f_code.co_filename:
            chain = {}
            while frame is not None:
                chain[frame.f_code.co_filename] = None
                frame = frame.f_back
            deepest[:] = max(deepest, [f for f in chain if str(SOURCE) in f], key=len)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        felbo.fit(model, objective, data, epochs=2, batch_size=30, progress=False)
    finally:
        sys.setprofile(before)
    assert 5 <= len(deepest) <= 10, deepest


def test_no_private_names_of_torch():
    names = re.compile(r"torch\._[a-zA-Z]\w*|\._version\b")
    found = {path.name: names.findall(path.read_text()) for path in SOURCE.rglob("*.py")}
    assert {name: uses for name, uses in found.items() if uses} == {}
