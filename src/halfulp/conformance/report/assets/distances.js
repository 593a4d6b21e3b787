// The histograms: recounted over the rows that the filters leave.

function percent(count, total) {
  if (count === 0 || count === total) return count ? "100 %" : total ? "0 %" : "0";
  const far = Math.min(count, total - count) / total * 100;
  const digits = far < 1 ? Math.max(1, -Math.floor(Math.log10(far))) : 1;
  return (100 * count / total).toFixed(digits).replace(/\.?0+$/, "") + " %";
}

function showDistances() {
  for (const panel of document.querySelectorAll("#distances .panel")) {
    const counts = new Map();
    let total = 0;
    for (const [key, found] of Object.entries(data.rows)) {
      const row = found[panel.dataset.target];
      if (!row || !row.histogram || !rowPasses(key)) continue;
      data.buckets.forEach((bucket, number) => {
        counts.set(bucket, (counts.get(bucket) || 0) + row.histogram[number]);
        total += row.histogram[number];
      });
    }
    for (const line of panel.querySelectorAll("[data-bucket]")) {
      const count = counts.get(line.dataset.bucket) || 0;
      const width = count ? 100 * Math.log10(count + 1) / Math.log10(total + 1) : 0;
      line.querySelector("rect").setAttribute("width", width.toFixed(1));
      const [elements, share] = line.querySelectorAll(".number");
      elements.textContent = count.toLocaleString("en");
      share.textContent = count ? percent(count, total) : "0";
    }
  }
}
listeners.push(showDistances);
