"""What losses and heads share: checks of arguments, reductions, settings that change from step to step."""
