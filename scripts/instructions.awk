# Instructions by object, from a callgrind output file: program, kernel object, of it kernel/sched, elsewhere.
# Names are compressed: "(id) name" defines, "(id)" refers; cob=, cfi= and cfl= define names too.
function lookup(table, text,    id) {
	id = text; sub(/ .*/, "", id)
	if (text ~ / /) { sub(/^[^ ]* /, "", text); table[id] = text }
	return table[id]
}
/^ob=/ { sub(/^ob=/, ""); ob = lookup(objects, $0); next }
/^cob=/ { sub(/^cob=/, ""); lookup(objects, $0); next }
/^f[lie]=/ { sub(/^f[lie]=/, ""); fl = lookup(files, $0); next }
/^cf[il]=/ { sub(/^cf[il]=/, ""); lookup(files, $0); next }
/^calls=/ { skip = 1; next }
/^[0-9+*-]/ {
	if (skip) { skip = 0; next }
	if (ob ~ /linux[^\/]*\.so$/) {
		kernel += $2
		if (fl ~ /kernel\/sched\/|linux\/sched/) sched += $2
	} else if (ob ~ /schedlab$/) engine += $2
	else { other += $2 }
}
END { printf "%d %d %d %d\n", engine, kernel, sched, other }
