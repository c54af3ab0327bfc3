/** The tokens of one job: what stands for its password until the job, or the agent, ends. */
import { createHash } from 'node:crypto';
import type { Keyspace } from '@flynn/scheduler/job-template';
import { isSameSecret, newSecret } from '@flynn/kit/secrets';

/** A job's programs authenticate one by one, and some for each command: who has not used a token for longest loses it. */
const maxTokens = 64;

export class Tokens {
  /** The one that was used last is the last. */
  readonly #tokens = new Set<string>();

  /** Undefined unless it is that keyspace's name and its password. */
  issue(given: { name: string; password: string }, { name, keyDigest }: Keyspace): string | undefined {
    const digest = `sha256:${createHash('sha256').update(given.password).digest('hex')}`;
    const isRight = isSameSecret(digest, keyDigest);
    if (!isRight || given.name !== name) return undefined;
    const [longestUnused] = this.#tokens;
    if (this.#tokens.size >= maxTokens && longestUnused !== undefined) this.#tokens.delete(longestUnused);
    const token = newSecret();
    this.#tokens.add(token);
    return token;
  }

  isKnown(token: string): boolean {
    if (!this.#tokens.delete(token)) return false;
    this.#tokens.add(token);
    return true;
  }
}
