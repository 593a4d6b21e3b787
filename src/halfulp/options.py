"""The options that a verb has on the command line and as keyword arguments in Python, each declared once.

Behind its type an option has its panel, metavar and help on the command line, and perhaps other names there, a default
and limits. This is no ``typer.Option``, because the functions don't need typer.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Literal, TypedDict, TypeVar, get_args, get_origin, get_type_hints

_Function = TypeVar("_Function", bound=Callable[..., Any])


class ConvertOptions(TypedDict, total=False):
    """The options of :func:`halfulp.convert` and ``halfulp convert``."""

    opset: Annotated[int | None, "Changes", "N", "The opset of ONNX's own operators, older or newer."]
    target: Annotated[
        str | None,
        "Changes",
        "NAME",
        "Rewrite the model so that onnxruntime, openvino, directml, cuda, tensorrt or iree accepts each Pow and PRelu,"
        " or basic: for a runtime with neither.",
    ]
    expand: Annotated[
        str | None,
        "Changes",
        "OPERATORS",
        "Write these operators, such as ReduceL2,Gelu, in others, for a runtime that lacks them.",
    ]
    prelu: Annotated[
        Literal["expand", "relu", "fold"] | None,
        "Changes",
        "HOW",
        "expand each PRelu into operators that every runtime has (relu: without comparisons), or fold such back."
        " Slopes that nodes compute of constants are stored.",
    ]
    pow: Annotated[
        Literal["expand", "logarithms", "fold"] | None,
        "Changes",
        "HOW",
        "expand each Pow with a constant exponent into products, roots or a reciprocal; logarithms: and the others"
        " into Exp and Log, approximately; or fold the former back where every bit stays.",
    ]
    float32: Annotated[
        str | None,
        "Changes",
        "NODES",
        "Compute nodes of a float16 network in float32, with casts around them: norms, each from its squares to its"
        " root or division; pow; all; or names with commas between them.",
    ]
    fuse: Annotated[
        Literal["norms"] | None,
        "Changes",
        "WHAT",
        "norms: write each norm that is exactly LayerNormalization-17 or RMSNormalization-23 as such.",
    ]
    verify: Annotated[
        bool,
        "Verification",
        "",
        "Run both models on the same inputs, given or made up, and compare every bit.",
    ]


class CheckOptions(TypedDict, total=False):
    """The options of :func:`halfulp.check` and ``halfulp check``."""

    time_limit: Annotated[
        float,
        "Targets",
        "SECONDS",
        "For a case; a target that takes longer hangs.",
        {"default": 10.0, "limits": {"min": 0.01, "max": 86400}},
    ]
    processes: Annotated[
        int | None,
        "Targets",
        "N",
        "Processes of a target at a time; one per processor by default.",
        {"limits": {"min": 1, "max": 256}},
    ]
    operators: Annotated[
        Iterable[str], "Cases", "NAME", "Only these: Pow, onnx.Pow, onnx.Pow-15.", {"names": ["--operator"]}
    ]
    types: Annotated[
        Iterable[str], "Cases", "T[,T]", "Only where an input has this type, or the inputs have these two."
    ]
    groups: Annotated[
        Iterable[str],
        "Cases",
        "NAME",
        "Only these cases: values, special, edge, hard, broadcast, invalid, reproducibility.",
        {"names": ["--group"]},
    ]
    cases: Annotated[
        Iterable[str],
        "Cases",
        "ID",
        "Only the cases with this id, in which * stands for any text.",
        {"names": ["--case"]},
    ]
    ulp_limit: Annotated[
        float,
        "Faults",
        "N",
        "How far off a result may be before it is wrong.",
        {"names": ["--ulp"], "default": 4.0, "limits": {"min": 0, "max": 1e20}},
    ]


def takes(options: type[Any], option: Callable[..., Any] | None = None) -> Callable[[_Function], _Function]:
    """Give a function, in place of its ``**`` parameter, the keywords of these options with their defaults.

    With ``option``, which is ``typer.Option``, the keywords are options of the command line.
    """

    def keyword(
        name: str, type: Any, panel: str, metavar: str, help: str, others: Mapping[str, Any] = {}
    ) -> Parameter:
        is_list = type == Iterable[str]
        default = others.get("default", () if is_list else False if type is bool else None)
        if option is not None:
            names = others.get("names", [f"--{name}"] if type is bool else [])
            shown = {"rich_help_panel": panel, "metavar": metavar, "help": help} | others.get("limits", {})
            if any(get_origin(part) is Literal for part in get_args(type)):
                type = str | None  # the function refuses other words
            type = Annotated[list[str] if is_list else type, option(*names, **shown)]
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=type)

    def decorated(function: _Function) -> _Function:
        of_function = signature(function, eval_str=True)
        *own, _ = of_function.parameters.values()
        first = [parameter for parameter in own if parameter.kind is not Parameter.KEYWORD_ONLY]
        hints = get_type_hints(options, include_extras=True).items()
        keywords = [keyword(name, *get_args(hint)) for name, hint in hints]
        complete = of_function.replace(parameters=[*first, *keywords, *own[len(first) :]])

        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            bound = complete.bind(*arguments, **named)
            bound.apply_defaults()
            return function(*bound.args, **bound.kwargs)

        call.__signature__ = complete  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorated
