/**
 * The last known certificates in a file, for a router that starts while the controller is away. Their keys are worth more
 * than the disk is trusted with, so all of it is sealed with a key made of the cluster's, which a router has in its
 * environment: a volume or a backup of it alone opens nothing.
 *
 * The file is a line of JSON with its salt, then sealed lines: one certificate each, then how many there were and when.
 */
import { servedCertificateSchema } from '@flynn/controller/certificates/model';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { z } from 'zod';
import { Keeping, KeptFile } from '../kept-file.ts';
import { SealedLines } from './sealed-lines.ts';

const headSchema = z.object({ format: z.literal(1), salt: z.base64() });
const tailSchema = z.object({ lines: z.int(), savedMs: z.number() });
const lineSchema = z.union([z.object({ certificate: z.record(z.string(), z.unknown()) }), tailSchema]);

const purpose = 'flynn router: the last known certificates';
/** Between two writes. */
const restMs = 5_000;

type Content = { savedMs: number; certificates: ServedCertificate[] };

export type RememberedCertificatesOptions = {
  file: string;
  /** The cluster's key. */
  key: string;
  log: Logger;
  /** False leaves the file as it is: of several processes that know the same, one is enough. Default true. */
  writes?: boolean;
  now?: () => number;
  restMs?: number;
};

/** INVARIANT. What comes from the file is never put in the place of what came from the controller. */
export class RememberedCertificates {
  readonly #options: Required<RememberedCertificatesOptions>;
  readonly #file: KeptFile;
  readonly #known = new Map<string, ServedCertificate>();
  readonly #saved: Content | undefined;
  #isLive = false;
  readonly #keeping = new Keeping();

  private constructor(options: Required<RememberedCertificatesOptions>, file: KeptFile, saved?: Content) {
    this.#options = options;
    this.#file = file;
    this.#saved = saved;
  }

  /** A file that cannot be used is as good as none, and told. */
  static async open(given: RememberedCertificatesOptions): Promise<RememberedCertificates> {
    const options = { writes: true, now: Date.now, restMs, ...given };
    const file = new KeptFile(options.file);
    await file.clean(options.now(), options.log);
    try {
      return new RememberedCertificates(options, file, await load(file, options));
    } catch (error) {
      options.log.warn({ reason: messageOf(error) }, 'the last known certificates cannot be used');
      return new RememberedCertificates(options, file);
    }
  }

  /** Of the file, to begin with; undefined if there is none. */
  get certificates(): readonly ServedCertificate[] | undefined {
    return this.#saved?.certificates;
  }

  /** When what is in use was saved; undefined once the controller has told its own. */
  get inUseSince(): string | undefined {
    return this.#saved === undefined || this.#isLive ? undefined : new Date(this.#saved.savedMs).toISOString();
  }

  /** The controller has spoken. */
  replace(all: readonly ServedCertificate[]): void {
    this.#isLive = true;
    this.#keeping.changed();
    this.#known.clear();
    for (const one of all) this.#known.set(one.id, one);
  }

  set(one: ServedCertificate): void {
    this.#keeping.changed();
    this.#known.set(one.id, one);
  }

  remove(id: string): void {
    if (this.#known.delete(id)) this.#keeping.changed();
  }

  /** Writes what is known, soon after it changed. */
  async run(signal: AbortSignal): Promise<void> {
    const { writes, log } = this.#options;
    if (!writes) return;
    await this.#keeping.run({
      file: this.#file,
      what: 'the certificates',
      restMs: this.#options.restMs,
      isDue: () => this.#isLive,
      lines: () => this.#lines(),
      log,
      signal,
    });
  }

  *#lines(): Generator<string> {
    const { key, now } = this.#options;
    const sealed = new SealedLines({ secret: key, purpose });
    yield JSON.stringify({ format: 1, salt: sealed.salt });
    const certificates = [...this.#known.values()];
    for (const one of certificates) {
      // What an authority wants to see is over by the next start.
      yield sealed.close(JSON.stringify({ certificate: { ...one, challenges: [] } }));
    }
    yield sealed.close(JSON.stringify({ lines: certificates.length, savedMs: now() }));
  }
}

/** undefined if there is none. Throws what is wrong with it; what only this version cannot read is told, and left out. */
async function load(
  file: KeptFile,
  { key, log }: Pick<RememberedCertificatesOptions, 'key' | 'log'>,
): Promise<Content | undefined> {
  const lines = await file.read();
  if (lines === undefined) return undefined;
  let sealed: SealedLines | undefined;
  let tail: z.output<typeof tailSchema> | undefined;
  const certificates: ServedCertificate[] = [];
  const problems: string[] = [];
  try {
    for await (const text of lines) {
      if (tail !== undefined) throw new FlynnError('invalid', 'it goes on behind its end');
      if (sealed === undefined) {
        const { salt } = headSchema.parse(JSON.parse(text));
        sealed = new SealedLines({ secret: key, purpose, salt });
        continue;
      }
      const line = lineSchema.parse(JSON.parse(sealed.open(text)));
      if ('certificate' in line) {
        const { data, error } = servedCertificateSchema.safeParse(line.certificate);
        if (data === undefined) problems.push(z.prettifyError(error));
        else certificates.push(data);
      } else tail = line;
    }
  } catch (error) {
    throw new FlynnError('invalid', `${file.path} is not as it should be: ${messageOf(error)}`, { cause: error });
  }
  if (tail?.lines !== certificates.length + problems.length) {
    throw new FlynnError('invalid', `${file.path} has no end: it was cut off`);
  }
  const [problem] = problems;
  // Never the lines themselves: they hold keys.
  if (problem !== undefined) {
    log.error(
      { lines: problems.length, problem },
      'of the last known certificates some are of another version, and left out',
    );
  }
  return { savedMs: tail.savedMs, certificates };
}
