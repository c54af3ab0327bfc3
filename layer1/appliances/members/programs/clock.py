"""Moments, in seconds: of a clock that goes on while the machine is suspended, unlike Python's monotonic one."""

import time


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)
