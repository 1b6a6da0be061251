"""python -m vivace"""

from .cli import main

main()
