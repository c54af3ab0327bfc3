/** A certificate and its key on this host's disk, made when there is need. */
import { createPrivateKey } from 'node:crypto';
import { parseCertificate } from '@flynn/kit/certificate';
import { hasCode } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { hostRole } from '@flynn/kit/identity';
import { type Credentials, isDue, issueCertificate } from '@flynn/kit/tls';

export type CertificateFiles = Readonly<{ certificate: string; key: string }>;
export type WantedCertificate = Readonly<{
  name: string;
  role?: string;
  addresses: readonly string[];
  isServerOnly?: boolean;
}>;

/** For its etcd member, its agent and hosts that join. */
export function hostCertificateOf(host: { hostId: string; address: string; gateway: string }): WantedCertificate {
  const { hostId, address, gateway } = host;
  return { name: hostId, role: hostRole(hostId), addresses: [address, gateway, '127.0.0.1', 'localhost'] };
}

/**
 * What is there, or a new one where that is missing, due, of another authority or for others, or where certificate and key do
 * not belong together: two files are not written as one. `isForced`: a new one anyway.
 */
export async function ensureCertificate(
  files: CertificateFiles,
  options: { wanted: WantedCertificate; authority: Credentials; now: number; isForced?: boolean },
): Promise<Credentials> {
  const { wanted, authority, now, isForced = false } = options;
  const [certificate, privateKey] = await Promise.all([readTextFile(files.certificate), readTextFile(files.key)]);
  if (certificate !== undefined && privateKey !== undefined && !isForced) {
    const { isServerOnly: _, ...needed } = wanted;
    const isGood = isStillGood(certificate, { authority: authority.certificate, ...needed, now });
    if (isGood && belongTogether({ certificate, privateKey })) {
      return { certificate, privateKey };
    }
  }
  const issued = await issueCertificate(authority, { ...wanted, now });
  await writeFileAtomic(files.key, issued.privateKey);
  await writeFileAtomic(files.certificate, issued.certificate);
  return issued;
}

/** So that whoever follows the file is not woken for nothing. */
export async function writeIfOther(file: string, text: string): Promise<void> {
  if ((await readTextFile(file)) !== text) await writeFileAtomic(file, text);
}

/** What a disk has damaged is not: it is made again. */
export function isStillGood(certificate: string, wanted: Parameters<typeof isDue>[1]): boolean {
  try {
    return !isDue(certificate, wanted);
  } catch (error) {
    if (hasCode(error, 'invalid')) return false;
    throw error;
  }
}

export function belongTogether({ certificate, privateKey }: Credentials): boolean {
  try {
    return parseCertificate(certificate).checkPrivateKey(createPrivateKey(privateKey));
  } catch {
    // No key can be read there: it is made again like one that is missing.
    return false;
  }
}
