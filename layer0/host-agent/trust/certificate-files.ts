/** A certificate and its key on this host's disk, made when there is need. */
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

/** What is there, or a new one where that is missing, due, of another authority or for others. `isForced`: a new one anyway. */
export async function ensureCertificate(
  files: CertificateFiles,
  options: { wanted: WantedCertificate; authority: Credentials; now: number; isForced?: boolean },
): Promise<Credentials> {
  const { wanted, authority, now, isForced = false } = options;
  const [certificate, privateKey] = await Promise.all([readTextFile(files.certificate), readTextFile(files.key)]);
  if (certificate !== undefined && privateKey !== undefined && !isForced) {
    const { isServerOnly: _, ...needed } = wanted;
    if (!isDue(certificate, { authority: authority.certificate, ...needed, now })) {
      return { certificate, privateKey };
    }
  }
  const issued = await issueCertificate(authority, { ...wanted, now });
  // The key first: a certificate without its key would be taken for whole the next time.
  await writeFileAtomic(files.key, issued.privateKey);
  await writeFileAtomic(files.certificate, issued.certificate);
  return issued;
}
