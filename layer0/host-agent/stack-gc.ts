/** Which stacks does no job need any more? */
import type { Container, ImageInfo } from './engine.ts';
import { label } from './labels.ts';

/** Needed for a start that is under way, and good to have for a rollback soon after a deploy. It can be built again. */
const keptMs = 3_600_000;

export function unusedStacks(input: {
  images: readonly ImageInfo[];
  containers: readonly Container[];
  now: number;
}): ImageInfo[] {
  const inUse = new Set(input.containers.map((container) => container.imageId));
  return input.images.filter(({ id, labels, createdAtMs }) => {
    if (labels[label.stack] === undefined || inUse.has(id)) return false;
    return input.now - createdAtMs > keptMs;
  });
}
