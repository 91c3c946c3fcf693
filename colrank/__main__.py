"""`python -m colrank` is `colrank`."""

from colrank.cli.main import run

if __name__ == "__main__":
    run()
