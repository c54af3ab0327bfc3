/** What executing an operation is given and gives. */
import type { BlobClient } from '@flynn/blobstore/client';
import type { Handover, Operation } from '@flynn/controller/model';
import type { HttpClient } from '@flynn/kit/http-client';
import type { RetryOptions } from '@flynn/kit/retry';
import { retry } from '@flynn/kit/retry';
import type { Env } from './env-watch.ts';
import type { Logins } from './own-logins.ts';
import type { OwnRegistries } from './registry/access.ts';

export type Execution = {
  operation: Operation;
  controller: HttpClient;
  blobs: Pick<BlobClient, 'get' | 'getName' | 'put' | 'stat'>;
  /** The runner's variables, with all that was set before the call. */
  env: () => Promise<Env>;
  /** Logins for registries that the runner holds itself, as they are now. */
  ownLogins: () => Promise<Logins>;
  ownRegistries: OwnRegistries;
  slugRunnerImage: string;
  /** Adds lines to the operation's log. */
  write: (...lines: string[]) => Promise<void>;
  /** How often a job that is followed is looked at, in case its connection hangs. */
  lookMs: number;
  /** Aborts when the operation is cancelled or the runner stops. */
  signal: AbortSignal;
  /** What another runner has to know that goes on with it, as far as it is by now. */
  handover: Pick<Handover, 'told'>;
  /** Whether another one is to go on with it: then what was begun is left as it is. */
  isGivenBack: () => boolean;
};

/** Answers the operation's output; throws for people what went wrong. */
export type Executor = (execution: Execution) => Promise<Record<string, string>>;

/** Waits out a controller or a blob store that is being replaced. `fn` is idempotent. */
export function patiently<T>(
  what: string,
  { signal }: Pick<Execution, 'signal'>,
  fn: (signal: AbortSignal) => Promise<T>,
  more: Partial<Pick<RetryOptions, 'deadlineMs' | 'isRetryable'>> = {},
): Promise<T> {
  return retry(fn, { what, signal, deadlineMs: 60_000, ...more });
}
