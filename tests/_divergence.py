"""Softmax and the divergence of a student from its teacher, written out."""

import math


def softmax(logits):
    powers = [math.exp(value) for value in logits]
    return [power / sum(powers) for power in powers]


def divergence(teacher, student, temperature):
    q, p = (softmax([value / temperature for value in logits]) for logits in (teacher, student))
    return temperature**2 * sum(a * math.log(a / b) for a, b in zip(q, p, strict=True))
