/** Chance that comes out the same again: numbers in [0, 1) from a seed (mulberry32, by Tommy Ettinger, public domain). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let value = Math.imul(state ^ (state >>> 15), state | 1);
    value ^= value + Math.imul(value ^ (value >>> 7), value | 61);
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
}

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';

/** Like `shortId`, from the given chance. */
export function seededIds(random: () => number): () => string {
  return () => {
    let id = alphabet.charAt(Math.floor(random() * 26));
    while (id.length < 12) id += alphabet.charAt(Math.floor(random() * alphabet.length));
    return id;
  };
}
