/** About what Node.js gives itself in the controller's container of 256 MiB; on a large machine it would collect later. */
export const controllerHeap = ['--max-old-space-size=128', '--max-semi-space-size=2'] as const;
