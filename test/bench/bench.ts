/** What a file of this folder exports as `bench`; the file's name is what people type. */
import type { TestCluster } from '../test-cluster.ts';
import type { Figure } from './figure.ts';

export type Bench =
  /** Makes what it needs itself; gets the arguments behind its name. */
  | { needs: 'nothing'; run: (args: readonly string[]) => Promise<Figure[]> }
  /**
   * A host whose engine holds nothing, hosts that have their engines and the first the images (three unless it says how many),
   * or a cluster that is up: of one host, or of three.
   */
  | { needs: 'blank host' | 'prepared hosts' | 'cluster' | 'three hosts'; hosts?: number; run: Run };

type Run = (cluster: TestCluster, args: readonly string[]) => Promise<Figure[]>;
