/** What a file of this folder exports as `bench`; the file's name is what people type. */
import type { TestCluster } from '../test-cluster.ts';
import type { Figure } from './figure.ts';

export type Bench =
  /** Makes what it needs itself; gets the arguments behind its name. */
  | { needs: 'nothing'; run: (args: readonly string[]) => Promise<Figure[]> }
  /** A host whose engine holds nothing, or a cluster that is up: of one host, or of three. */
  | { needs: 'blank host' | 'cluster' | 'three hosts'; run: (cluster: TestCluster) => Promise<Figure[]> };
