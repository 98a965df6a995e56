#!/bin/sh
# The book, from the pages of this repository and from the program: out/book/index.html. Usage: scripts/book.sh OUT
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:-out/book}")
src=target/book/src

# mdBook builds it; where it is not installed, it is built once
mdbook=$(command -v mdbook || true)
if [ -z "$mdbook" ]; then
	mdbook=target/tools/bin/mdbook
	if ! [ -x "$mdbook" ]; then
		echo "book: building mdbook (some minutes, once)" >&2
		cargo install mdbook --version "^0.5" --locked --quiet --root target/tools --target-dir target/tools/build
		rm -rf target/tools/build
	fi
fi

rm -rf "$src"
mkdir -p "$src"
# pages keep their places, so that links between them stay right
git ls-files '*.md' 'docs/images/*' | while read -r file; do
	mkdir -p "$src/$(dirname "$file")"
	cp "$file" "$src/$file"
done
mv "$src/docs/SUMMARY.md" "$src/SUMMARY.md"
target/release/schedlab manual book -o "$src/docs/reference"
"$mdbook" build --dest-dir "$out" >/dev/null

# a README is its folder's index
find "$out" -name '*.html' -exec sed -i 's/\(href="[^":]*\)README\.html/\1index.html/g' {} +

# links to files that are no pages (sources, samples): the file is put there; what is nowhere is an error
missing=$(mktemp)
trap 'rm -f "$missing"' EXIT
find "$out" -name '*.html' | sort | while read -r page; do
	folder=$(dirname "$page")
	{ grep -o 'href="[^"]*' "$page" || true; } | cut -c7- | grep -v : | sed 's/#.*//' | sort -u | while read -r link; do
		[ -n "$link" ] || continue
		target=$(realpath -m "$folder/$link")
		[ -e "$target" ] && continue
		file=${target#"$out"/}
		if [ -e "$file" ]; then
			mkdir -p "$(dirname "$target")"
			cp -r "$file" "$target"
		else
			echo "${page#"$out"/}: $link" >>"$missing"
		fi
	done
done
if [ -s "$missing" ]; then
	echo "book: links that lead nowhere:" >&2
	cat "$missing" >&2
	exit 1
fi
echo "$out/index.html"
