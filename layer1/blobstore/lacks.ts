/** What a store lacks, and since when. */
import type { Lack } from './api.ts';

const named = 5;

export class Lacks {
  readonly #byDigest = new Map<string, { sizeBytes: number; sinceMs: number }>();

  add({ digest, sizeBytes }: { digest: string; sizeBytes: number }, nowMs: number): void {
    if (!this.#byDigest.has(digest)) this.#byDigest.set(digest, { sizeBytes, sinceMs: nowMs });
  }

  delete(digest: string): void {
    this.#byDigest.delete(digest);
  }

  keepOnly(digests: ReadonlyMap<string, unknown>): void {
    for (const digest of this.#byDigest.keys()) if (!digests.has(digest)) this.#byDigest.delete(digest);
  }

  forgetBefore(ms: number): void {
    for (const [digest, { sinceMs }] of this.#byDigest) if (sinceMs < ms) this.#byDigest.delete(digest);
  }

  get digests(): readonly string[] {
    return [...this.#byDigest.keys()];
  }

  get told(): Lack {
    const all = [...this.#byDigest.values()];
    const since = all.length === 0 ? {} : { since: Math.min(...all.map(({ sinceMs }) => sinceMs)) };
    const bytes = all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    return { count: all.length, bytes, ...since, digests: this.digests.slice(0, named) };
  }
}
