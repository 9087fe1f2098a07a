#!/bin/bash
# Instructions that reads take for each row, as callgrind counts them on the reading thread, on both
# storages: `reads.sh [ROWS] [STATE...]` with the states of `reads.rs`; ONLY="NAME..." chooses reads.
# READS=PATH takes a program that is built, STOCK=no leaves SQLite's own storage out, OUT=DIR keeps
# the profiles.
set -e
rows=${1:-100000}
shift || true
states=${*:-log tables}
if [ -z "$READS" ]; then
  export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
  READS=$(cargo build --release -q -p silica-sql --example reads --message-format=json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
fi
dir=$(mktemp -d)
trap 'rm -r "$dir"' EXIT
out=${OUT:-$dir}
mkdir -p "$out"
names=${ONLY:-$("$READS" names - - "$rows")}

measure() { # storage directory name: instructions a row and what was found
  local kept="$out/$1-$3-$(basename "$2")"
  rm -f "$kept"
  valgrind --tool=callgrind --callgrind-out-file="$kept" --toggle-collect='*reads*measured*' \
    "$READS" read "$2" "$1" "$rows" "$3" > "$dir/read" 2> "$dir/log" ||
    { cat "$dir/log" >&2; exit 1; }
  read -r _ count _ sum < "$dir/read"
  echo "$(($(sed -n 's/^totals: //p' "$kept") / count)) $sum"
}

for state in $states; do
  for storage in silica ${STOCK:-sqlite}; do
    [ "$storage" = no ] && continue
    mkdir "$dir/$state-$storage"
    "$READS" fill "$dir/$state-$storage" "$storage" "$rows" "$state"
  done
  echo "| instructions a row, $state | Silica | SQLite | ratio |"
  echo "|---|---|---|---|"
  for name in $names; do
    ours=$(measure silica "$dir/$state-silica" "$name")
    theirs="0 ${ours#* }"
    [ "$STOCK" = no ] || theirs=$(measure sqlite "$dir/$state-sqlite" "$name")
    [ "${ours#* }" = "${theirs#* }" ] || { echo "$name: $ours, SQLite $theirs" >&2; exit 1; }
    echo "$name ${ours% *} ${theirs% *}" |
      awk '{ printf "| `%s` | %d | %d | %.1f |\n", $1, $2, $3, $3 ? $2 / $3 : 0 }'
  done
done
