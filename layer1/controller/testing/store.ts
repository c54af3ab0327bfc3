/** A real etcd, and the store on it, that a test may take away for a while. */
import { silentLogger } from '@flynn/kit/log';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { EtcdMember } from '@flynn/store/etcd-member';
import type { Store } from '@flynn/store/store';

/** Whoever is given the store closes it. */
export async function startTestStore(): Promise<{ etcd: EtcdMember; store: Store }> {
  const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
  const etcd = await startEtcdMember(image === undefined ? {} : { image });
  return { etcd, store: connectEtcd({ endpoints: [etcd.endpoint], log: silentLogger() }) };
}
