"""Inputs of any structure, and outputs that may or may not be logits."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from felbo.inputs import (
    arguments,
    as_inputs,
    as_labels,
    batch_size,
    check_logits,
    check_one_label_each,
    cloned,
    concatenate,
    explained,
    logits_of,
    map_tensors,
    run,
    run_on_copy,
    split_labels,
    tensors,
)

A, B = torch.arange(6.0).reshape(3, 2), torch.arange(12.0).reshape(3, 4)
STRUCTURES = {
    "tensor": (A, [A]),
    "tuple": ((A, B), [A, B]),
    "list": ([A, B], [A, B]),
    "dict": ({"a": A, "b": B}, [A, B]),
    "nested": ((A, {"b": [B, A]}), [A, B, A]),
}
every_structure = pytest.mark.parametrize("structure", STRUCTURES)


@every_structure
def test_tensors_come_in_order(structure):
    x, expected = STRUCTURES[structure]
    assert [id(part) for part in tensors(x)] == [id(part) for part in expected]
    assert batch_size(x) == 3


@every_structure
def test_map_keeps_the_structure(structure):
    x, expected = STRUCTURES[structure]
    doubled = map_tensors(lambda part: 2 * part, x)
    assert isinstance(doubled, dict) == isinstance(x, dict)
    for found, part in zip(tensors(doubled), expected, strict=True):
        assert torch.equal(found, 2 * part)


@every_structure
def test_clones_share_no_memory(structure):
    x, expected = STRUCTURES[structure]
    before = [part.clone() for part in expected]
    for found, part in zip(tensors(cloned(x)), before, strict=True):
        assert torch.equal(found, part)
        found.add_(1.0)
    for part, old in zip(expected, before, strict=True):
        assert torch.equal(part, old)


@every_structure
def test_concatenation_is_the_inverse_of_a_split(structure):
    x, expected = STRUCTURES[structure]
    joined = concatenate([map_tensors(lambda part, i=i: part[i : i + 1], x) for i in range(3)])
    for found, part in zip(tensors(joined), expected, strict=True):
        assert torch.equal(found, part)


def test_what_is_no_input_is_refused():
    for x in ("text", None, (A, 3), {"a": None}):
        with pytest.raises(TypeError, match="tensor, or a tuple, list or dict of tensors; got"):
            map_tensors(torch.neg, x)
        with pytest.raises(TypeError, match="tensor, or a tuple, list or dict of tensors; got"):
            batch_size(x)


def test_numbers_of_items_must_agree():
    with pytest.raises(ValueError, match=r"got sizes \[2, 3\]"):
        batch_size((A, B[:2]))
    with pytest.raises(ValueError, match=r"got sizes \[\]"):
        batch_size(())


def test_arguments_are_positional_or_named():
    assert arguments(A) == ((A,), {})
    assert arguments([A, B]) == ((A, B), {})
    assert arguments({"a": A}) == ((), {"a": A})


def test_logits_come_alone_or_as_an_attribute():
    assert logits_of(A) is A
    assert logits_of(SimpleNamespace(logits=A)) is A
    with pytest.raises(TypeError, match=r"object with .logits; got tuple"):
        logits_of((A, B))


def test_run_calls_the_network_with_its_arguments():
    network = nn.Bilinear(2, 4, 5)
    expected = network(A, B)
    for x in ((A, B), [A, B], {"input1": A, "input2": B}, {"input2": B, "input1": A}):
        assert torch.equal(run(network, x), expected)
    assert torch.equal(run(nn.Identity(), A), A)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((3,), r"torch.cat\(\[torch.zeros_like"),
        ((3, 1), r"torch.cat\(\[torch.zeros_like"),
        ((6, 2), "rows are not the inputs"),
        ((1, 2), "rows are not the inputs"),
        ((3, 5, 2), "flatten the other axes"),
        ((), "flatten the other axes"),
        ((3, 0), "flatten the other axes"),
    ],
)
def test_other_shapes_than_logits_are_refused(shape, message):
    with pytest.raises(ValueError, match=rf"logits \[3, K\] for 3 inputs, K ≥ 2; got.*{message}"):
        check_logits(torch.Size(shape), 3)


def test_two_logits_from_one_are_the_same_problem():
    """The advice for one logit gives the probability that a sigmoid would."""
    logit = torch.randn(7, 1)
    two = torch.cat([torch.zeros_like(logit), logit], -1)
    check_logits(two.shape, 7)
    torch.testing.assert_close(two.softmax(-1)[:, 1:], logit.sigmoid())


def test_labels_come_second_or_by_name():
    labels = torch.arange(3)
    assert split_labels([A, labels]) == (A, labels)
    assert split_labels({"a": A, "labels": labels, "b": A}) == ({"a": A, "b": A}, labels)
    for batch, kind in (
        (A, "Tensor"),
        ([A, A, labels], "list .*'Tensor', 'Tensor', 'Tensor'"),
        ({"a": A}, "dict"),
        ((A, [1]), "tuple .*'Tensor', 'list'"),
    ):
        with pytest.raises(TypeError, match=rf"pair \(x, y\).* the loader gave a {kind}"):
            split_labels(batch)


def test_arrays_become_tensors_of_their_own_where_they_may_not_be_written():
    array = np.arange(6.0).reshape(3, 2)
    shared = as_inputs(array, torch.float64)
    shared += 1
    assert array[0, 0] == 1.0
    array.flags.writeable = False
    own = as_inputs(array, torch.float64)
    own += 1
    assert array[0, 0] == 1.0
    labels = as_labels(array[:, 0])
    assert labels.tolist() == [1, 3, 5]


def test_floating_arrays_take_the_dtype_of_the_model_and_others_keep_theirs():
    found = as_inputs({"a": np.zeros((3, 2)), "b": (np.zeros(3, np.uint8), A.double())}, A.dtype)
    assert [part.dtype for part in tensors(found)] == [torch.float32, torch.uint8, torch.float64]
    assert torch.equal(as_inputs([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], A.dtype), A)
    assert torch.equal(as_inputs(list(np.float32([1, 2])), A.dtype), torch.tensor([1.0, 2.0]))
    assert as_inputs([np.True_, np.False_], A.dtype).tolist() == [True, False]
    assert as_inputs(np.arange(6.0).reshape(2, 3).T[::-1], A.dtype)[0].tolist() == [2.0, 5.0]
    with pytest.raises(TypeError, match="encode text"):
        as_inputs(np.array([["a"]]), A.dtype)


def test_frames_of_several_types_are_numbers_unless_they_hold_text_or_nothing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [0.5, 2.0], "b": [True, False], "c": [3, 4]})
    expected = [[0.5, 1.0, 3.0], [2.0, 0.0, 4.0]]
    for table in (frame, frame.convert_dtypes(), frame.astype(object)):
        found = as_inputs(table, torch.float32)
        assert found.dtype == torch.float32
        assert found.tolist() == expected
    for bad in (frame.assign(c=["3", "4"]), frame.convert_dtypes().assign(c=[pandas.NA, 1])):
        with pytest.raises(TypeError, match=r"encode text .*fill in missing values"):
            as_inputs(bad, torch.float32)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, bool])
def test_labels_of_any_whole_kind(dtype):
    labels = as_labels(np.array([0, 1, 1]).astype(dtype))
    assert labels.dtype == torch.int64
    assert labels.tolist() == [0, 1, 1]


def test_labels_that_are_no_whole_numbers_are_refused():
    for labels in (torch.tensor([0.5]), np.array([np.nan]), torch.tensor([torch.inf])):
        with pytest.raises(TypeError, match="values that are not integers"):
            as_labels(labels)
    with pytest.raises(TypeError, match="LabelEncoder"):
        as_labels(["cat", "dog"])


def test_errors_of_a_forward_pass_say_if_the_dtypes_differ():
    layer = nn.Linear(2, 2)
    with pytest.raises(RuntimeError) as caught, explained(A.long(), layer):
        layer(A.long())
    assert "inputs are torch.int64 and the weights torch.float32" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError) as caught, explained(A, layer):
        layer(B)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize(
    ("shape", "advice"),
    [((3,), r"got \[3\]\.$"), ((4, 1), r"squeeze\(-1\)\.$"), ((4, 5), r"argmax\(-1\)\.$")],
)
def test_labels_of_another_shape_are_refused_with_what_mends_them(shape, advice):
    with pytest.raises(ValueError, match=advice):
        check_one_label_each(torch.zeros(shape), 4)


def test_inputs_that_become_nan_are_overwritten():
    x = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
    assert run_on_copy(lambda x: x * 2.0, x)[1]
    assert not run_on_copy(lambda x: x.mul_(float("nan")), x)[1]
    assert x[1].tolist() == [2.0, 3.0]
