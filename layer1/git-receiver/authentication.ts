/** Lets in whoever holds the private half of a key that the controller knows. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { withDeadline } from '@flynn/kit/retry';
import type { AuthContext, PublicKeyAuthContext } from 'ssh2';
import ssh2 from 'ssh2';
import type { Platform } from './platform.ts';

const lookupMs = 10_000;
/** As many keys as a full agent offers, each asked about and then signed with. */
const maxAttempts = 40;

export function fingerprintOf(key: Buffer): string {
  return `SHA256:${createHash('sha256').update(key).digest('base64').replace(/=+$/, '')}`;
}

/** One per connection. */
export class Authentication {
  readonly #deps: { platform: Pick<Platform, 'findKey'>; log: Logger };
  readonly #unknown = new Set<string>();
  #isPlatformAway = false;
  #attempts = 0;
  /** Of the key that was let in. */
  fingerprint: string | undefined;

  constructor(deps: { platform: Pick<Platform, 'findKey'>; log: Logger }) {
    this.#deps = deps;
  }

  async decide(context: AuthContext): Promise<void> {
    this.#attempts += 1;
    if (this.#attempts > maxAttempts) return context.reject([]);
    if (context.method === 'publickey') {
      if (await this.#accepts(context)) return context.accept();
      // That other method is only a way to say something: see below.
      return context.reject(['publickey', 'keyboard-interactive']);
    }
    if (context.method === 'keyboard-interactive') {
      // Without a question in it: OpenSSH shows the text, answers by itself, and is then refused.
      return context.prompt([], '', this.#explanation(), () => context.reject(['publickey']));
    }
    context.reject(['publickey', 'keyboard-interactive']);
  }

  async #accepts(context: PublicKeyAuthContext): Promise<boolean> {
    const { data } = context.key;
    let publicKey: string;
    const fingerprint = fingerprintOf(data);
    try {
      const known = await this.#deps.platform.findKey(fingerprint, { signal: withDeadline(lookupMs) });
      const stored = Buffer.from(known?.publicKey.split(' ')[1] ?? '', 'base64');
      if (known === undefined || stored.length !== data.length || !timingSafeEqual(stored, data)) {
        this.#unknown.add(fingerprint);
        return false;
      }
      publicKey = known.publicKey;
    } catch (error) {
      this.#isPlatformAway = true;
      this.#deps.log.error({ err: error }, `a key could not be looked up: ${messageOf(error)}`);
      return false;
    }
    // The client asks first whether the key would do.
    if (context.signature === undefined || context.blob === undefined) return true;
    const key = ssh2.utils.parseKey(publicKey);
    if (key instanceof Error || !key.verify(context.blob, context.signature, context.hashAlgo)) return false;
    this.fingerprint = fingerprint;
    return true;
  }

  #explanation(): string {
    if (this.#isPlatformAway)
      return 'Keys cannot be checked at the moment: the controller does not answer. Try again soon.\n';
    if (this.#unknown.size === 0)
      return 'You have to log in with an SSH key: make one with ssh-keygen, then run: flynn key add\n';
    const keys = [...this.#unknown].join(', ');
    return `This SSH key is not known here: ${keys}\nAdd it with: flynn key add\n`;
  }
}
