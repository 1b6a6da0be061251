"""The two ways in which things go wrong: the user's input, and a simulation that breaks down."""


class InputError(ValueError):
    """Something the caller gave cannot be used; the message names it. The command line answers with exit code 2."""


class SimulationError(RuntimeError):
    """A step produced a number that is not finite. The simulation keeps its last good state."""
