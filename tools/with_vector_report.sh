# Run a compiler of GCC's with its report on loops beside the object; afresh, since GCC adds to an earlier report.
for object; do case $object in *.o) break ;; esac; done
rm -f "$object.vectors"
exec "$@" -fopt-info-vec-optimized-missed="$object.vectors"
