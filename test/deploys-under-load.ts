/** An app that is deployed again and again while people use it in every way. */
import { MixedLoad, type MixedReport } from './mixed-load.ts';
import type { TestCluster } from './test-cluster.ts';

const app = 'deploys';
const perSecond = 200;
const slowMs = 10_000;
const deployMs = 240_000;

export type Deployed = MixedReport & {
  /** Of each deploy, as the person waits for it. */
  deploySeconds: readonly number[];
  elapsedSeconds: number;
};

/** Requests at the first host. */
export async function deployUnderLoad(cluster: TestCluster, deploys: number): Promise<Deployed> {
  const checkout = await cluster.checkout('express', app);
  await checkout.push();
  await checkout.flynn(['scale', 'web=2']);
  await using load = new MixedLoad({
    router: cluster.host.address,
    host: `${app}.${cluster.domain}`,
    perSecond,
    slow: { lanes: 4, ms: slowMs },
    sockets: 4,
  });
  const deploySeconds: number[] = [];
  const startedMs = performance.now();
  for (let deploy = 1; deploy <= deploys; deploy += 1) {
    const beganMs = performance.now();
    await checkout.flynn(['env', 'set', `DEPLOY=${deploy}`], { timeoutMs: deployMs });
    deploySeconds.push((performance.now() - beganMs) / 1_000);
  }
  const elapsedSeconds = (performance.now() - startedMs) / 1_000;
  return { ...(await load.stop()), deploySeconds, elapsedSeconds };
}
