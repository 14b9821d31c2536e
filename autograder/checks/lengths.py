"""How long real chats are and how far apart: integer quantile tables, so a draw is the same on every machine."""

from random import Random

# 33 quantiles of ContextTokens and GeneratedTokens in the Azure LLM inference trace 2023, conversations.
PROMPTS = (
    *(2, 165, 194, 206, 235, 374, 383, 391, 396, 401, 405, 412, 428, 818, 966, 1001, 1020),
    *(1037, 1052, 1067, 1083, 1100, 1120, 1147, 1189, 1312, 1335, 1766, 2309, 3018, 4079, 4089, 14050),
)
OUTPUTS = (
    *(7, 33, 45, 53, 60, 68, 75, 81, 85, 89, 92, 95, 99, 104, 110, 118, 129),
    *(141, 157, 171, 195, 223, 377, 389, 395, 397, 402, 411, 416, 427, 440, 502, 1000),
)
# 33 quantiles of the exponential distribution of mean 1, in thousandths; the last is cut at 5.
GAPS = (
    *(0, 32, 65, 98, 134, 170, 208, 247, 288, 330, 375, 421, 470, 521, 575, 633, 693),
    *(758, 827, 901, 981, 1068, 1163, 1269, 1386, 1520, 1674, 1856, 2079, 2367, 2773, 3466, 5000),
)


def quantile(draw: Random, table: tuple[int, ...]) -> int:
    """A value between two neighbouring quantiles, each stretch equally likely."""
    index = draw.randrange(len(table) - 1)
    return table[index] + draw.randrange(1024) * (table[index + 1] - table[index]) // 1024
