"""Mutants of a file, made by the operators of Cosmic Ray and by one that drops a call."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Keyword

from benchmarks.mutants import ROOT, Module, Mutant

OPERATORS = (
    "AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "NumberReplacer", "ZeroIterationForLoop",
    "ReplaceUnaryOperator_USub_UAdd", "ReplaceUnaryOperator_Delete_Not",
    "ReplaceComparisonOperator_Eq_NotEq", "ReplaceComparisonOperator_NotEq_Eq", "ReplaceComparisonOperator_Lt_LtE",
    "ReplaceComparisonOperator_LtE_Lt", "ReplaceComparisonOperator_Gt_GtE", "ReplaceComparisonOperator_GtE_Gt",
    "ReplaceComparisonOperator_Is_IsNot", "ReplaceComparisonOperator_IsNot_Is", "ReplaceBinaryOperator_Add_Sub",
    "ReplaceBinaryOperator_Sub_Add", "ReplaceBinaryOperator_Mul_Div", "ReplaceBinaryOperator_Div_Mul",
    "ReplaceBinaryOperator_FloorDiv_Mul", "ReplaceBinaryOperator_Mod_Add", "ReplaceBinaryOperator_BitOr_BitAnd",
    "ReplaceBinaryOperator_BitAnd_BitOr",
)  # fmt: skip
"""One replacement for each operator of the language: the neighbour that a slip would give."""


class DropCall(Operator):
    """Replaces a statement that only calls something by `pass`: a write, a check, a sync that does not happen."""

    def mutation_positions(self, node):  # pyright: ignore[reportIncompatibleMethodOverride]
        """Where `node` is such a statement."""
        if node.type == "simple_stmt" and node.children[0].type in {"atom_expr", "power"}:
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        """The statement `pass`."""
        first = node.get_first_leaf()
        node.children[0] = Keyword("pass", first.start_pos, first.prefix)
        return node

    @classmethod
    def examples(cls) -> Sequence[Example]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What Cosmic Ray tests an operator with."""
        return (Example("f(x)\n", "pass\n"),)


def mutants_of(module: Module) -> Iterator[Mutant]:
    """Every mutant of the module's files that is another program."""
    for file in module.files:
        yield from _mutants(ROOT / file, file, module.tests)


def _mutants(path: Path, file: str, tests: tuple[str, ...]) -> Iterator[Mutant]:
    source = path.read_text(encoding="utf-8")
    seen = {essence(source)}
    for operator in (DropCall(), *(get_operator(f"core/{name}")() for name in OPERATORS)):
        for number in count():
            mutated = mutate_code(source, operator, number)
            if mutated is None:
                break
            program = essence(mutated)
            if program and program not in seen:
                seen.add(program)
                yield _mutant(source, mutated, file, tests)


def _mutant(source: str, mutated: str, file: str, tests: tuple[str, ...]) -> Mutant:
    before, after = source.splitlines(), mutated.splitlines()
    for tag, low, high, new_low, new_high in difflib.SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag != "equal":
            texts = (" ".join(line.strip() for line in part) for part in (before[low:high], after[new_low:new_high]))
            old, new = texts
            return Mutant(file=file, line=low + 1, before=old, after=new, source=mutated, tests=tests)
    raise AssertionError("A mutant has the lines of its original.")


def essence(source: str) -> str:
    """The syntax tree without what changes no behaviour (`_Essence`); empty if the source has none."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return ""
    return ast.dump(_Essence().visit(tree))


class _Essence(ast.NodeTransformer):
    """Reduces a program to what it does: two mutants with the same essence are one.

    It leaves out annotations, decorators of classes, sizes of caches, imports for annotations alone, the sentences of
    errors and which arguments go by name alone, and writes a negated comparison in one way.
    """

    def visit_arguments(self, node: ast.arguments) -> ast.AST:
        node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
        node.defaults = [*node.defaults, *filter(None, node.kw_defaults)]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(0)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "lru_cache":
            node.keywords = []
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST:
        if "TYPE_CHECKING" in ast.dump(node.test):
            return ast.Pass()
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [ast.Constant("") if isinstance(one, ast.JoinedStr) else one for one in node.exc.args]
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(left=left, ops=[only], comparators=[right])):
                if type(only) in _NEGATED:
                    return self.generic_visit(ast.Compare(left, [_NEGATED[type(only)]()], [right]))
        return self.generic_visit(node)


_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
