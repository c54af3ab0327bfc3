/** Which images does this host need no more? */
import type { Container, ImageInfo } from '../engine/engine.ts';
import { buildRepository, label } from '../engine/labels.ts';

export type ImagesInput = {
  /** All the engine has, whoever they belong to. */
  images: readonly ImageInfo[];
  containers: readonly Pick<Container, 'imageId'>[];
  /** Names that assignments and resident jobs ask for. */
  named: ReadonlySet<string>;
  /** Names that this agent had pulled from a registry: they can be pulled again. */
  pulled: ReadonlySet<string>;
  cluster: string;
  /** Milliseconds since an image was last needed; undefined for one never heard of. */
  idleMsOf: (imageId: string) => number | undefined;
  /** What was needed more lately than this stays: for a rollback, and because a start may be under way. */
  graceMs: number;
};

/**
 * The longest unused first, but what stands on others before those. Ours are: stacks and loaded images of this cluster
 * (made again from the blob store), images pulled by this agent, and of the platform's own all but the newest of each name,
 * which nobody but `up` could make again. Anything else on the machine is somebody else's.
 */
export function unusedImages(input: ImagesInput): ImageInfo[] {
  const { images, graceMs, idleMsOf } = input;
  const inUse = new Set(input.containers.map(({ imageId }) => imageId));
  const isOfBuild = (ref: string): boolean => ref.startsWith(`${buildRepository(input.cluster)}:`);
  const newest = newestOfPlatform(images, isOfBuild);
  const isKept = (image: ImageInfo): boolean =>
    inUse.has(image.id) ||
    newest.has(image.id) ||
    image.refs.some((ref) => input.named.has(ref)) ||
    (idleMsOf(image.id) ?? 0) <= graceMs;
  const kept = images.filter(isKept).flatMap((image) => layersOf(image, input.cluster) ?? []);
  const isUnused = (image: ImageInfo): boolean => {
    if (isKept(image)) return false;
    const layers = layersOf(image, input.cluster);
    // What a kept stack stands on stays too: the next release of its app goes on the same.
    if (layers !== undefined) return !kept.some((other) => other === layers || other.startsWith(`${layers},`));
    if (image.refs.length > 0 && image.refs.every(isOfBuild)) return true;
    if (image.labels[label.image] !== undefined) return true;
    if (image.labels[label.cluster] === input.cluster && image.labels[label.loaded] !== undefined) return true;
    return image.refs.length > 0 && image.refs.every((ref) => input.pulled.has(ref));
  };
  const height = (image: ImageInfo): number => layersOf(image, input.cluster)?.split(',').length ?? 0;
  return images
    .filter(isUnused)
    .toSorted((a, b) => height(b) - height(a) || (idleMsOf(b.id) ?? 0) - (idleMsOf(a.id) ?? 0));
}

function layersOf({ labels }: ImageInfo, cluster: string): string | undefined {
  return labels[label.cluster] === cluster ? labels[label.stack] : undefined;
}

function newestOfPlatform(images: readonly ImageInfo[], isOfBuild: (ref: string) => boolean): ReadonlySet<string> {
  const newest = new Map<string, ImageInfo>();
  for (const image of images) {
    // A stack inherits the label of its base, and so does what is built on one.
    if (image.labels[label.image] === undefined || image.labels[label.stack] !== undefined) continue;
    for (const ref of image.refs.filter((ref) => !isOfBuild(ref))) {
      const repository = ref.slice(0, ref.lastIndexOf(':'));
      const known = newest.get(repository);
      if (known === undefined || known.createdAtMs < image.createdAtMs) newest.set(repository, image);
    }
  }
  return new Set([...newest.values()].map(({ id }) => id));
}
