/** Who this host is to the others of its cluster, on its disk: certificates of the cluster's authority. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { tlsFiles } from '@flynn/host-agent/cluster/etcd-resident';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { type Credentials, isDue, issueCertificate } from '@flynn/kit/tls';
import { type Cluster, controllerUrlOf, gatewayOf } from './settings.ts';

const folder = (stateDir: string): string => join(stateDir, 'tls');

/** The host's own, for its etcd member, its agent and hosts that join. Made again when it is due or the address changed. */
export async function ensureHostCertificate(stateDir: string, cluster: Cluster): Promise<Credentials> {
  const files = { certificate: join(stateDir, tlsFiles.certificate), key: join(stateDir, tlsFiles.key) };
  await mkdir(folder(stateDir), { recursive: true, mode: 0o700 });
  const authorityFile = join(stateDir, tlsFiles.authority);
  if ((await readTextFile(authorityFile)) !== cluster.authority.certificate) {
    await writeFileAtomic(authorityFile, cluster.authority.certificate);
  }
  const addresses = [cluster.address, gatewayOf(cluster.subnet), '127.0.0.1', 'localhost'];
  return await ensureCertificate(files, { name: cluster.hostId, addresses, authority: cluster.authority });
}

/** The controller's, as a client of etcd. */
export async function ensureControllerCertificate(stateDir: string, cluster: Cluster): Promise<Credentials> {
  const files = {
    certificate: join(folder(stateDir), 'controller.pem'),
    key: join(folder(stateDir), 'controller-key.pem'),
  };
  return await ensureCertificate(files, { name: 'controller', addresses: [], authority: cluster.authority });
}

/**
 * What the controller shows to people, at the router: for servers only, for its key is where routers are, and who has it is
 * nobody to etcd.
 */
export async function ensureRouteCertificate(stateDir: string, cluster: Cluster): Promise<Credentials> {
  const files = {
    certificate: join(folder(stateDir), 'controller-route.pem'),
    key: join(folder(stateDir), 'controller-route-key.pem'),
  };
  const { hostname } = new URL(controllerUrlOf(cluster));
  const wanted = { name: hostname, addresses: [hostname], authority: cluster.authority, isServerOnly: true };
  return await ensureCertificate(files, wanted);
}

async function ensureCertificate(
  files: { certificate: string; key: string },
  wanted: { name: string; addresses: readonly string[]; authority: Credentials; isServerOnly?: boolean },
): Promise<Credentials> {
  const [certificate, privateKey] = await Promise.all([readTextFile(files.certificate), readTextFile(files.key)]);
  const { addresses, authority } = wanted;
  if (certificate !== undefined && privateKey !== undefined) {
    if (!isDue(certificate, { authority: authority.certificate, addresses })) return { certificate, privateKey };
  }
  const issued = await issueCertificate(authority, wanted);
  // The key first: a certificate without its key would be taken for whole the next time.
  await writeFileAtomic(files.key, issued.privateKey);
  await writeFileAtomic(files.certificate, issued.certificate);
  return issued;
}
