#!/bin/sh
# lint: C with the warnings of gcc and clang and by clang-format, Lua by luacheck, shell by itself. Goes
# on after a failure, to report them all. `make lint` calls it with the compilers' FLAGS.
set -u

sources=$(find runtime scripts tests/c -name '*.c')
headers=$(find runtime tests/c -name '*.h')
status=0

# check TITLE COMMAND… < files: runs the command on the files, spread over all processors.
check() {
  title=$1; shift
  if xargs -P "$(nproc)" -n 8 "$@"; then echo "lint: $title: fine"; else
    echo "lint: $title: FAILED" >&2
    return 1
  fi
}

# Each end of a pipe is a process of its own: only its status comes back.
# shellcheck disable=SC2086
{
  echo "$sources" | check gcc gcc -fsyntax-only -Itests/c $FLAGS -fopenmp || status=1
  echo "$sources" | check clang clang -fsyntax-only -Itests/c $FLAGS || status=1
  echo "$sources $headers" | check clang-format clang-format-19 --dry-run -Werror || status=1
  find lua scripts tests -name '*.lua' | check luacheck -n 1000 luacheck -q --no-color || status=1
  find scripts -name '*.sh' -o -name setup | check 'shell syntax' -n 1 sh -n || status=1
  echo .ci/run | check 'shell syntax of CI' bash -n || status=1
}
exit $status
