"""A grouped bar chart as SVG text: no plotting library for one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLOURS = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 960, 420, 60, 70, 60


def bars(title: str, labels: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """One group of bars per label, one colour per series, on a linear axis from zero."""
    top = max((max(values) for values in series.values()), default=1.0) * 1.1
    plot_w, plot_h = WIDTH - LEFT - 20, HEIGHT - TOP - BOTTOM
    group_w = plot_w / max(len(labels), 1)
    bar_w = group_w * 0.8 / max(len(series), 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for step in range(6):
        value = top * step / 5
        y = TOP + plot_h - plot_h * step / 5
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{value:.1f}</text>')
    for index, (name, values) in enumerate(series.items()):
        colour = COLOURS[index % len(COLOURS)]
        parts.append(
            f'<rect x="{LEFT + index * 150}" y="32" width="12" height="12" fill="{colour}"/>'
        )
        parts.append(f'<text x="{LEFT + index * 150 + 17}" y="42">{escape(name)}</text>')
        for group, value in enumerate(values):
            x = LEFT + group * group_w + group_w * 0.1 + index * bar_w
            height = plot_h * value / top
            y = TOP + plot_h - height
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar_w:.1f}" height="{height:.1f}" '
                f'fill="{colour}"/>'
            )
            parts.append(
                f'<text x="{x + bar_w / 2:.1f}" y="{y - 3:.1f}" text-anchor="middle" '
                f'font-size="9">{value:.1f}</text>'
            )
    for group, label in enumerate(labels):
        x = LEFT + (group + 0.5) * group_w
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">')
        parts.append(f"{escape(label)}</text>")
    return "\n".join([*parts, "</svg>", ""])
