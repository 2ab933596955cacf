"""Turn the definition of `apexlab image --dry-run` (stdin) into one that goes to a registry without
a name: python by_digest.py REPOSITORY CELL. With --digest, read bake's metadata instead, and print
the digest of the one image in it."""

import json
import sys


def by_digest(definition: dict, repository: str, cell: str) -> dict:
    """What is built stays as it was asked for: only where it goes to, and the cache, are set."""
    cache = f"type=registry,ref={repository}-cache:{cell}"
    for target in definition["target"].values():
        del target["tags"]
        target["output"] = [
            f"type=image,name={repository},push-by-digest=true,name-canonical=true,push=true"]
        target["cache-from"] = [cache]
        # What cannot be cached costs time, and no more.
        target["cache-to"] = [f"{cache},mode=max,ignore-error=true"]
    return definition


def digest(metadata: dict) -> str:
    """The digest of the one manifest that was pushed."""
    [found] = [one["containerimage.digest"] for one in metadata.values()
               if isinstance(one, dict) and "containerimage.digest" in one]
    return found


if __name__ == "__main__":
    given = json.load(sys.stdin)
    if sys.argv[1:] == ["--digest"]:
        print(digest(given))
    else:
        json.dump(by_digest(given, *sys.argv[1:]), sys.stdout, indent=2)
