#!/bin/sh
# install: puts optlua under a prefix, and takes it away again.
#   LIBS=… install.sh install PREFIX BUILD
#   install.sh uninstall PREFIX
# Nothing that is installed knows the prefix, so the tree can be moved. The folders that did not exist
# before are written down, so that uninstalling removes them too, if they are empty by then.
set -eu

action=$1 prefix=$2
notes=$prefix/share/doc/optlua
floors='base tensor autograd ops rule optim io'

# Makes a folder and those above it, under the prefix; notes which are new.
folder() {
  [ ! -d "$prefix/$1" ] || return 0
  case $1 in */*) folder "${1%/*}" ;; ?*) folder '' ;; *) mkdir -p "${prefix%/*}" ;; esac
  mkdir "$prefix/$1"
  made="$made./$1
"
}

# put MODE FILE TARGET: one file, to a target under the prefix.
put() {
  folder "$(dirname "$3")"
  install -m "$1" "$2" "$prefix/$3"
}

# The umbrella header: all headers of the core but templates, which have no guard.
umbrella() {
  echo '/* optlua: the core of optlua for programs in C. */'
  echo '#pragma once'
  for header in $headers; do echo "#include \"$header\""; done
}

pkg_config() {
  cat <<END
prefix=\${pcfiledir}/../..
Name: optlua
Description: training runtime: tensors, gradients, optimizers
Version: $(sed -n 's/^#define OL_VERSION "\(.*\)"/\1/p' runtime/base/version.h)
Cflags: -I\${prefix}/include -I\${prefix}/include/optlua
Libs: -L\${prefix}/lib -loptlua $LIBS
END
}

install_all() {
  build=$1 made=
  headers=$(cd runtime && for floor in $floors; do grep -rls '^#ifndef OL_' "$floor" | sort; done)
  scratch=$(mktemp)
  trap 'rm -f "$scratch"' EXIT

  put 755 "$build/optlua" bin/optlua
  put 755 "$build/lib/optlua/core.so" lib/lua/5.4/optlua/core.so
  for file in $(cd lua && find optlua -type f); do put 644 "lua/$file" "share/lua/5.4/$file"; done
  put 644 "$build/liboptlua.a" lib/liboptlua.a
  for header in $headers; do put 644 "runtime/$header" "include/optlua/$header"; done
  umbrella >"$scratch"
  put 644 "$scratch" include/optlua.h
  pkg_config >"$scratch"
  put 644 "$scratch" lib/pkgconfig/optlua.pc
  put 644 runtime/main/optlua.1 share/man/man1/optlua.1
  put 644 LICENSE share/doc/optlua/LICENSE
  printf %s "$made" >>"$notes/folders"
}

uninstall_all() {
  made=
  [ ! -f "$notes/folders" ] || made=$(sort -r "$notes/folders")
  rm -rf "$prefix/share/lua/5.4/optlua" "$prefix/lib/lua/5.4/optlua" "$prefix/include/optlua" "$notes"
  rm -f "$prefix/bin/optlua" "$prefix/lib/liboptlua.a" "$prefix/include/optlua.h" \
    "$prefix/lib/pkgconfig/optlua.pc" "$prefix/share/man/man1/optlua.1"
  echo "$made" | while read -r name; do
    name=${name#./}
    [ ! -d "$prefix/$name" ] || rmdir "$prefix${name:+/$name}" 2>/dev/null || true
  done
}

case $action in
  install) install_all "$3" ;;
  uninstall) uninstall_all ;;
esac
