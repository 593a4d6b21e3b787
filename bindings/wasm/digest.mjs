// The fixed powers of `halfulp doors`, in a browser; and by Node, which prints their digests: node digest.mjs [COUNT]
import { load } from "./halfulp.mjs";

function mix(n) {
  n = Math.imul(n ^ (n >>> 16), 0x85ebca6b);
  n = Math.imul(n ^ (n >>> 13), 0xc2b2ae35);
  return (n ^ (n >>> 16)) >>> 0;
}

const hard = {
  64: [2 ** -52, 127, 0x6000001, 0xffffff, 0x38001, 0x3fff],
  32: [2 ** -23, 3, 4097, 511, 257, 31],
};

// As operands() of src/halfulp/doors.py.
export function operands(bits, count) {
  const [x, y] = [0, 1].map(() => new (bits === 64 ? Float64Array : Float32Array)(count));
  const [step, most, square, squares, cube, cubes] = hard[bits];
  for (let i = 0; i < count; i++) {
    const [a, b, c, d] = [0, 1, 2, 3].map((k) => mix(4 * i + k));
    if (i % 4 < 2) {
      x[i] = (a + 1 + b / 2 ** 32) / 2 ** 26;
      y[i] = (c + d / 2 ** 32) / 2 ** 28 - 8;
    } else if (i % 4 === 2) {
      x[i] = 1 + (2 * (a & 127) + 1) * step;
      y[i] = (b & most) + 0.5;
    } else {
      x[i] = (c & 1 ? cube + 2 * (a & cubes) : square + 2 * (a & squares)) * (c >>> 31 ? -1 : 1);
      y[i] = 2 + (c & 1);
    }
  }
  return [x, y];
}

// For each type the digest of the powers that a function of two arrays makes, and nanoseconds a power.
export async function measure(pow, count = 500000) {
  const results = {};
  for (const bits of [64, 32]) {
    const [x, y] = operands(bits, count);
    pow(x, y);
    const start = performance.now(), powers = pow(x, y), time = performance.now() - start;
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", powers)).subarray(0, 8);
    const digits = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0"));
    results[`float${bits}`] = [digits.join(""), (1e6 * time) / count];
  }
  return results;
}

if (globalThis.process?.argv[1]?.endsWith("digest.mjs")) {
  const { readFileSync } = await import("node:fs");
  const { pow } = await load(readFileSync(new URL("halfulp.wasm", import.meta.url)));
  console.log(JSON.stringify(await measure(pow, Number(process.argv[2] ?? 500000))));
}
