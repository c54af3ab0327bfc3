/** Whom does the command line take for a cluster's controller? Over https, who is of the authority that was pinned. */
import { certificatesIn, fingerprintOf, isEndorsement, parseCertificate } from '@flynn/kit/certificate';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { shownChain } from '@flynn/kit/shown-chain';
import { usageError } from '../arguments.ts';
import { readNamed } from '../input-file.ts';
import type { Io } from '../io.ts';

export type Trust = Readonly<{ ca?: string }>;

export const trustOptions = {
  pin: [
    '--pin <fingerprint>',
    `of the authority its certificate has to be of (SHA-256), as ${eitherCommand('up')} prints it`,
  ],
  ca: ['--ca <file>', 'that authority itself, as PEM; without either whom this machine trusts anyway'],
} as const;

/** `unauthenticated` naming both fingerprints where something else answers than what is pinned. */
export async function trustOf(
  io: Io,
  url: string,
  { pin, ca }: { pin?: string | undefined; ca?: string | undefined },
): Promise<Trust> {
  if (pin === undefined && ca === undefined) return {};
  if (!url.startsWith('https:')) throw usageError('--pin and --ca are for an address that begins with https:');
  if (ca !== undefined) {
    const text = await readNamed(io, ca);
    const { ca: isAuthority } = parseCertificate(text);
    if (!isAuthority) throw usageError(`${ca} is no certificate of an authority, but one that an authority has signed`);
    if (pin !== undefined && fingerprintOf(text) !== normal(pin)) throw otherAuthority(url, fingerprintOf(text), pin);
    return { ca: text };
  }
  const wanted = normal(pin ?? '');
  if (!/^[0-9a-f]{64}$/.test(wanted)) {
    throw usageError(`--pin ${pin}: a fingerprint is 64 hexadecimal digits, the SHA-256 of a certificate`);
  }
  const { chain } = await shown(url);
  const found = chain.find((one) => one.ca && fingerprintOf(one.toString()) === wanted);
  if (found !== undefined) return { ca: found.toString() };
  throw otherAuthority(url, authorityOf(chain), wanted);
}

/** As an error that tells what was shown and what is trusted, if it came of that; else the error itself. */
export async function explainTrust(error: unknown, url: string, { ca }: Trust): Promise<unknown> {
  const reason = trustFault(error);
  if (reason === undefined || !url.startsWith('https:')) return error;
  let found: string | undefined;
  try {
    found = authorityOf((await shown(url)).chain);
  } catch {
    // It shows nothing more by now: what there is to say is why it was not trusted.
    return error;
  }
  const pinned = certificatesIn(ca ?? '').map(fingerprintOf);
  if (ca !== undefined && (found === undefined || !pinned.includes(found))) {
    return otherAuthority(url, found, pinned.join(' or '), error);
  }
  const what = `the certificate that ${url} shows is not to be trusted: ${reason}`;
  const remedy =
    ca === undefined
      ? `it is of the authority ${found}\n  compare that with what ${eitherCommand('up')} prints on the host that keeps the platform; if it is the same, add it:\n  flynn cluster add NAME ${url} KEY --pin ${found}`
      : `it is of the authority that is pinned (${found}): ${eitherCommand('up')} on the host that keeps the platform makes another one`;
  return new FlynnError('unauthenticated', `${what}\n  ${remedy}`, { cause: error });
}

/**
 * The authority that was made anew in the place of one of these, which has signed for it, as the cluster shows it; both PEM.
 * Undefined where it shows none, and where nobody answers.
 */
export async function successorOf(url: string, pinned: string): Promise<string | undefined> {
  let chain: Awaited<ReturnType<typeof shown>>['chain'];
  try {
    ({ chain } = await shown(url));
  } catch {
    // It is looked for again by the next command.
    return undefined;
  }
  const authority = chain.at(-1)?.toString();
  if (authority === undefined) return undefined;
  const isSignedFor = certificatesIn(pinned).some((former) =>
    chain.some((one) => isEndorsement(one, { authority, former })),
  );
  return isSignedFor ? authority : undefined;
}

function otherAuthority(url: string, found: string | undefined, pinned: string, cause?: unknown): FlynnError {
  const lines = [
    `what answers at ${url} is not the cluster that is pinned`,
    `  it shows a certificate of the authority  ${found ?? 'none at all'}`,
    `  pinned is the authority                  ${normal(pinned)}`,
    `  somebody may stand in between; or the cluster was made anew: ${eitherCommand('up')} on the host that keeps its platform prints its fingerprint`,
  ];
  return new FlynnError('unauthenticated', lines.join('\n'), { cause });
}

/** What is wrong with a certificate, if that is why a call failed. */
function trustFault(error: unknown): string | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ('code' in cause && typeof cause.code === 'string' && isTrustCode(cause.code)) return messageOf(cause);
  }
  return undefined;
}

/** As Node names what OpenSSL finds: X509_V_ERR_… without its beginning. */
function isTrustCode(code: string): boolean {
  return /^(?:CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_|INVALID_CA|ERR_TLS_CERT_)/.test(code);
}

function authorityOf(chain: readonly { toString(): string }[]): string | undefined {
  const last = chain.at(-1);
  return last === undefined ? undefined : fingerprintOf(last.toString());
}

function shown(url: string): ReturnType<typeof shownChain> {
  const { hostname, port } = new URL(url);
  return shownChain({ host: hostname, port: Number(port === '' ? 443 : port) }, AbortSignal.timeout(10_000));
}

/** openssl writes AA:BB. */
function normal(fingerprint: string): string {
  return fingerprint.replaceAll(':', '').trim().toLowerCase();
}
