/** The certificates a host stands on, read anew each time: they are renewed while the agent runs. */
import { readFile } from 'node:fs/promises';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { TlsConfig } from '../cluster/start.ts';
import type { KnownCertificate } from './certificates.ts';

/** None where etcd has none. */
export async function ownCertificates(config: TlsConfig): Promise<KnownCertificate[]> {
  const { FLYNN_ETCD_CERT_FILE: own, FLYNN_ETCD_CA_FILE: authority } = config;
  const known: KnownCertificate[] = [];
  if (own !== undefined) {
    known.push({
      name: "the host's certificate",
      certificate: await readFile(own, 'utf8'),
      why: 'without a valid one neither etcd nor other hosts talk to it',
      remedy:
        'its agent makes another by itself from two thirds of its life on: flynn-host certificates renew tells why it did not',
      warnDays: 30,
      criticalDays: 7,
    });
  }
  if (authority !== undefined) {
    known.push({
      name: "the certificate of the cluster's authority",
      certificate: await readFile(authority, 'utf8'),
      why: 'once it ends no certificate of the cluster is valid any more: hosts, etcd and the controller fall apart',
      remedy: `make it anew: ${eitherCommand('rotateAuthority')} on the host that keeps the platform`,
      warnDays: 180,
      criticalDays: 30,
    });
  }
  return known;
}
