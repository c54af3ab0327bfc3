/**
 * Whose certificates count on this host, and who issues its own: the cluster's authority, and while that is made anew one
 * more (docs/trust.md). Beside each stands the authority of the platform's parts, which is made of its key.
 */
import { join } from 'node:path';
import { readJsonFile } from '@flynn/kit/files';
import { type Credentials, deriveAuthority } from '@flynn/kit/tls';
import { z } from 'zod';

/** Written by bootstrap: what hosts that join are told. Without it this host lets nobody in. */
export const admissionFile = 'admission.json';

const partsAuthority = 'flynn parts';

/** As the cluster's settings have them; PEM. */
export const authoritiesSchema = z.object({
  /** Issues; whoever has its key can be anyone in the cluster. */
  authority: z.object({ certificate: z.string(), privateKey: z.string() }),
  /** Counts as well, with that of its parts: the one that is to issue, or the one that did. */
  alsoTrusted: z.object({ certificate: z.string(), parts: z.string() }).optional(),
  /** Raised with each of them that becomes another: hosts take over what is later than what they have. Default 0. */
  authorityRound: z.int().optional(),
  /** The certificate of the one that issues as the one before it has signed it: for those that know that one alone. */
  endorsement: z.string().optional(),
});
export type AuthoritySettings = Readonly<z.output<typeof authoritiesSchema>>;

export type Authorities = Readonly<{
  issuing: Credentials;
  /** Issues to jobs of the platform. */
  parts: Credentials;
  /** What etcd and its clients take: hosts and the controller alone. */
  ofHosts: string;
  /** What hosts and parts of the platform take. */
  trusted: string;
  /** What is shown behind a certificate to those that may know the one before alone. */
  shown: string;
}>;

/** Whose certificates are of a host, or the controller's for etcd; the one that issues first. */
export function hostAuthoritiesOf({ authority, alsoTrusted }: AuthoritySettings): string {
  return authority.certificate + (alsoTrusted?.certificate ?? '');
}

async function authoritiesOf(settings: AuthoritySettings): Promise<Authorities> {
  const { authority: issuing, alsoTrusted } = settings;
  const parts = await deriveAuthority(issuing, partsAuthority);
  const ofHosts = hostAuthoritiesOf(settings);
  const trusted = ofHosts + parts.certificate + (alsoTrusted?.parts ?? '');
  return { issuing, parts, ofHosts, trusted, shown: shownBehind(settings) };
}

/** Behind a certificate of the authority, to those that may know the one before it alone: they take it by that one's word. */
export function shownBehind({ authority, endorsement = '' }: AuthoritySettings): string {
  return endorsement + authority.certificate;
}

/** As others are to take it, without its key. */
export async function trustedOnly(authority: Credentials): Promise<NonNullable<AuthoritySettings['alsoTrusted']>> {
  const { certificate } = authority;
  return { certificate, parts: (await deriveAuthority(authority, partsAuthority)).certificate };
}

const admissionSchema = z.object({ settings: authoritiesSchema });

/** Undefined where the host has none. */
export async function readAuthoritySettings(stateDir: string): Promise<AuthoritySettings | undefined> {
  return (await readJsonFile(join(stateDir, admissionFile), admissionSchema))?.settings;
}

export class AuthorityFile {
  readonly #stateDir: string;
  #last: Readonly<{ text: string; authorities: Authorities }> | undefined;

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
  }

  /** As they are by now, the same object while they are the same; undefined where the host has none. */
  async read(): Promise<Authorities | undefined> {
    const settings = await readAuthoritySettings(this.#stateDir);
    if (settings === undefined) return undefined;
    const text = JSON.stringify([settings.authority, settings.alsoTrusted, settings.endorsement]);
    // A derived certificate is another one each time, of the same key.
    if (this.#last?.text !== text) this.#last = { text, authorities: await authoritiesOf(settings) };
    return this.#last.authorities;
  }
}
