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
  const layersOf = ({ labels }: ImageInfo): string | undefined => labels[label.stack];
  const isKept = ({ id, createdAtMs }: ImageInfo): boolean => inUse.has(id) || input.now - createdAtMs <= keptMs;
  const kept = input.images.filter(isKept).flatMap((image) => layersOf(image) ?? []);
  const isUnused = (image: ImageInfo): boolean => {
    const layers = layersOf(image);
    // What a kept stack stands on stays too: the next release of its app goes on the same.
    return layers !== undefined && !kept.some((other) => other === layers || other.startsWith(`${layers},`));
  };
  // The engine removes no image that another stands on: the tallest go first.
  const height = (image: ImageInfo): number => layersOf(image)?.split(',').length ?? 0;
  return input.images.filter(isUnused).toSorted((a, b) => height(b) - height(a));
}
