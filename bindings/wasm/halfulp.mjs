// Exact powers in JavaScript, by halfulp.wasm:
//
//   import { load } from "./halfulp.mjs";
//   const { pow } = await load(fetch("halfulp.wasm"));  // or its bytes: load(readFileSync("halfulp.wasm"))
//   pow(1.1, 3.3), pow(new Float32Array([2, 3]), new Float32Array([0.5, 2]))
const names = new Map([[Float64Array, "pow_float64"], [Float32Array, "pow_float32"], [Uint16Array, "pow_float16"]]);
if (globalThis.Float16Array) names.set(Float16Array, "pow_float16");

export async function load(source) {
  const compile = source instanceof Promise ? "instantiateStreaming" : "instantiate";
  const wasm = (await WebAssembly[compile](source)).instance.exports;
  const step = 16384, bytes = 8 * step, places = [0, 1, 2].map((k) => ((wasm.__heap_base.value + 63) & ~63) + k * bytes);
  wasm.memory.grow(Math.ceil((3 * bytes + 64) / 65536));

  // The power of two numbers, or of two typed arrays of one type and length. A Uint16Array has the bits of float16.
  function pow(x, y) {
    if (typeof x === "number" && typeof y === "number") return wasm.pow(x, y);
    const name = names.get(x?.constructor), z = name && new x.constructor(x.length);
    if (!name || y?.constructor !== x.constructor || y.length !== x.length)
      throw new TypeError("pow takes two numbers, or two Float64Arrays, Float32Arrays or Float16Arrays of one length");
    const [bases, exponents, powers] = places.map((at) => new x.constructor(wasm.memory.buffer, at, step));
    for (let i = 0; i < x.length; i += step) {
      const some = x.subarray(i, i + step);
      bases.set(some);
      exponents.set(y.subarray(i, i + step));
      wasm[name](...places, some.length);
      z.set(powers.subarray(0, some.length), i);
    }
    return z;
  }
  return { pow, powf: wasm.powf };
}
