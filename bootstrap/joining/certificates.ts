/** Who this host is to the others of its cluster, on its disk: certificates of the cluster's authority. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { tlsFiles } from '@flynn/host-agent/cluster/etcd-resident';
import { hostAuthoritiesOf } from '@flynn/host-agent/trust/authorities';
import { ensureCertificate, hostCertificateOf, writeIfOther } from '@flynn/host-agent/trust/certificate-files';
import { appRole } from '@flynn/kit/identity';
import { parseCertificate } from '@flynn/kit/certificate';
import type { Certificate } from '@flynn/controller/certificates/model';
import type { Credentials } from '@flynn/kit/tls';
import { type Cluster, gatewayOf } from '../settings.ts';
import { controllerNameOf, dashboardNameOf } from '../domain/urls.ts';

const folder = (stateDir: string): string => join(stateDir, 'tls');

/** The host's own, for its etcd member, its agent and hosts that join. Made again when it is due or the address changed. */
export async function ensureHostCertificate(stateDir: string, cluster: Cluster): Promise<Credentials> {
  const files = { certificate: join(stateDir, tlsFiles.certificate), key: join(stateDir, tlsFiles.key) };
  await mkdir(folder(stateDir), { recursive: true, mode: 0o700 });
  await writeIfOther(join(stateDir, tlsFiles.authority), hostAuthoritiesOf(cluster));
  const { hostId, address, subnet, authority } = cluster;
  const wanted = hostCertificateOf({ hostId, address, gateway: gatewayOf(subnet) });
  return await ensureCertificate(files, { wanted, authority, now: Date.now() });
}

/** The controller's, as a client of etcd. */
export async function ensureControllerCertificate(stateDir: string, cluster: Cluster): Promise<Credentials> {
  const files = {
    certificate: join(folder(stateDir), 'controller.pem'),
    key: join(folder(stateDir), 'controller-key.pem'),
  };
  const wanted = { name: 'controller', role: appRole('controller'), addresses: [] };
  return await ensureCertificate(files, { wanted, authority: cluster.authority, now: Date.now() });
}

/** Whether the cluster's authority made one that was put in its place; people bring theirs in the same way, of other issuers. */
export function isOfAuthority(
  { source, issuer }: Pick<Certificate, 'source' | 'issuer'>,
  { authority }: Pick<Cluster, 'authority'>,
): boolean {
  return source === 'own' && `CN=${issuer}` === parseCertificate(authority.certificate).subject;
}

/** Parts of the platform that people reach by a name of their own at each of the cluster's domains. */
export type ShownPart = 'controller' | 'dashboard';

/**
 * What one of them shows to people, at the router, by its name at one of the cluster's domains: for servers only, for its
 * key is where routers are, and who has it is nobody to etcd and to agents.
 */
export async function ensureRouteCertificate(
  stateDir: string,
  cluster: Cluster,
  { part, domain }: { part: ShownPart; domain: string },
): Promise<Credentials> {
  const which = domain === cluster.domain ? '' : `-${domain}`;
  const files = {
    certificate: join(folder(stateDir), `${part}-route${which}.pem`),
    key: join(folder(stateDir), `${part}-route-key${which}.pem`),
  };
  const hostname = part === 'controller' ? controllerNameOf({ domain }) : dashboardNameOf({ domain });
  const wanted = { name: hostname, addresses: [hostname], isServerOnly: true };
  return await ensureCertificate(files, { wanted, authority: cluster.authority, now: Date.now() });
}
