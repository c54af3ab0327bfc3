/** A kind: a resource type as the generic API, files and the command line have it. A new one is one module. */
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Asking } from '@flynn/resource/access';
import type { Controller } from '@flynn/resource/controller';
import { TypeRegistry } from '@flynn/resource/registry';
import type { ResourceService } from '@flynn/resource/service';
import { tombstoneType } from '@flynn/resource/tombstone';
import type { AnyType, Owner, Resource, ResourceType } from '@flynn/resource/type';
import type { z } from 'zod';
import type { Principal } from '../access/principal.ts';
import type { Deps } from '../deps.ts';
import type { CallerAsking } from './access.ts';
import type { Difference } from './difference.ts';
import type { ResourceReader } from './reader.ts';
import type { Wake } from './wakes.ts';

/** What somebody wants of an object; what is left out stays as it is. */
export type Wanted<Spec> = Readonly<{
  name?: string;
  owner?: Owner;
  labels?: Readonly<Record<string, string>>;
  spec: Spec;
  /** Only if it is at this revision; 0: only if there is none, of kinds without rules of their own. */
  revision?: number;
}>;

/** How it was brought about, or would be. */
export type Applied = Readonly<{
  name: string;
  isNew: boolean;
  changes: readonly Difference[];
  /** A deployment that goes on by itself. */
  deploymentId?: string;
  notes?: readonly string[];
}>;

export type ApplyContext<Current = Resource<unknown, unknown>> = Readonly<{
  isDryRun: boolean;
  /** What was judged, and so what is acted on: nothing is looked up again by what the spec says. Undefined: there is none yet. */
  current: Current | undefined;
  /** What the same files make or change, `app/shop`, in a dry run only what comes before: it may be another by then. */
  assumed: readonly string[];
  signal: AbortSignal;
  /** Who asks: a kind's own rules are asked by it whether they may, as far as the type's hooks do not say. */
  principal: Principal;
}>;

/** What is about to be made or changed: by this whoever asks is judged. */
export type Target<Current = Resource<unknown, unknown>> = Readonly<{
  current: Current | undefined;
  /** Whose it is, or will be, where the name says that: an owner that is given has to be the same. */
  owner?: Owner | undefined;
}>;

export type TargetContext = Readonly<{ asking: CallerAsking; signal: AbortSignal }>;

/** What differs from the resource itself. */
export type Shown = Readonly<{
  name?: string;
  spec?: object;
  status?: object;
  conditions?: Resource<unknown, unknown>['conditions'];
  observedGeneration?: number;
}>;

export type ControllerContext = Readonly<{ resources: ResourceService; deps: Deps; log: Logger }>;

/**
 * `plain`: what is written is checked by its type and stored; reconcilers act on it. `own`: its module brings about what
 * is wanted by rules of its own. `none`: it comes and goes with other things.
 */
export type Kind = Readonly<{
  type: AnyType;
  summary: string;
  /** Beside the type's name and its plural. */
  names: readonly string[];
  /** Heading → path in the object. */
  columns: Readonly<Record<string, string>>;
  isExported: boolean;
  /** What a file may say in `spec`. */
  wanted: z.ZodType | undefined;
  writes: 'plain' | 'own' | 'none';
  /** `own`: to what it is asked for, null takes a field back, and revisions are those of the resource. */
  appliesPatches: boolean;
  /** Types of which an object's view tells something: a change of theirs is a change of their owner. */
  showsOwned: readonly AnyType[];
  /** Where a view tells what is no resource: has watches woken when it may have changed, until what it returns is called. */
  wakes?(deps: Deps, wake: Wake): () => void;
  /** Default: by id, or by name. */
  find?(deps: Deps, name: string, signal: AbortSignal): Promise<Resource<unknown, unknown> | undefined>;
  view?(deps: Deps, resource: Resource<unknown, unknown>, read: ResourceReader): Promise<Shown>;
  /** What is acted on, where more than the name says so. Default: what has the name. */
  target?(deps: Deps, wanted: Wanted<unknown>, context: TargetContext): Promise<Target>;
  apply?(deps: Deps, wanted: Wanted<unknown>, context: ApplyContext): Promise<Applied>;
  /** `plain`: before a spec is written, throws what this cluster forbids. */
  checkSpec?(deps: Deps, next: unknown, current: unknown): void;
  /** What of a spec those may see who only look. */
  withoutSecrets?(spec: Record<string, unknown>): Record<string, unknown>;
  /** Whether objects can be deleted here. */
  isRemovable: boolean;
  /** Before the deletion: throws what forbids it. */
  checkRemoval?(resource: Resource<unknown, unknown>, asking: Asking): void;
  /** Default: the object alone, and what it owns after it. */
  remove?(deps: Deps, resource: Resource<unknown, unknown>, signal: AbortSignal): Promise<void>;
  /** Run by the controller's workers. */
  controllers: readonly ((context: ControllerContext) => Controller)[];
}>;

export function defineKind<Spec, Status, SpecInput, WantedSpec = SpecInput>(definition: {
  type: ResourceType<string, Spec, Status, SpecInput>;
  summary: string;
  names?: readonly string[];
  columns?: Readonly<Record<string, string>>;
  /** Default: if it can be written. */
  isExported?: boolean;
  isReadOnly?: boolean;
  /** Default: if it can be written. */
  isRemovable?: boolean;
  appliesPatches?: boolean;
  wanted?: z.ZodType<WantedSpec>;
  showsOwned?: readonly AnyType[];
  wakes?: (deps: Deps, wake: Wake) => () => void;
  find?: (deps: Deps, name: string, signal: AbortSignal) => Promise<Resource<Spec, Status> | undefined>;
  /** What it has to look up it reads with `read`, which does that at once for many objects. */
  view?: (deps: Deps, resource: Resource<Spec, Status>, read: ResourceReader) => Promise<Shown>;
  /** Needed where a spec says what it is about, and where a name says whose it is. Tells nothing of what `asking` may not see. */
  target?: (deps: Deps, wanted: Wanted<WantedSpec>, context: TargetContext) => Promise<Target<Resource<Spec, Status>>>;
  /** With `wanted`: how that is brought about. Idempotent: asked again it changes nothing. */
  apply?: (deps: Deps, wanted: Wanted<WantedSpec>, context: ApplyContext<Resource<Spec, Status>>) => Promise<Applied>;
  checkSpec?: (deps: Deps, next: Spec, current: Spec | undefined) => void;
  checkRemoval?: (resource: Resource<Spec, Status>, asking: Asking) => void;
  /** What of a spec those may see who only look. */
  withoutSecrets?: (spec: Record<string, unknown>) => Record<string, unknown>;
  /** How it goes, where more has to go with it. */
  remove?: (deps: Deps, resource: Resource<Spec, Status>, signal: AbortSignal) => Promise<void>;
  controllers?: readonly ((context: ControllerContext) => Controller)[];
}): Kind;
export function defineKind(
  definition: Pick<Kind, 'type' | 'summary'> & Partial<Kind> & { isReadOnly?: boolean },
): Kind {
  const { isReadOnly = false, ...rest } = definition;
  const writes = isReadOnly ? 'none' : definition.apply === undefined ? 'plain' : 'own';
  return Object.freeze({
    names: [],
    columns: {},
    isExported: writes !== 'none',
    isRemovable: writes !== 'none',
    writes,
    appliesPatches: false,
    showsOwned: [],
    controllers: [],
    wanted: writes === 'plain' ? definition.type.spec : undefined,
    ...rest,
  });
}

const tombstoneKind = defineKind({
  type: tombstoneType,
  summary: 'what deleted objects leave until all they owned is gone',
  columns: { OF: 'spec.type', ID: 'spec.id' },
  isReadOnly: true,
});

/** The kinds a controller has. */
export class Kinds {
  readonly registry = new TypeRegistry();
  readonly #kinds = new Map<AnyType, Kind>();

  /** Throws `internal` for two that are called the same, and for what the registry refuses. */
  constructor(kinds: readonly Kind[]) {
    const taken = new Set<string>();
    for (const kind of [tombstoneKind, ...kinds]) {
      if (kind !== tombstoneKind) this.registry.register(kind.type);
      this.#kinds.set(kind.type, kind);
      for (const name of namesOf(kind)) {
        if (taken.has(name)) throw new FlynnError('internal', `two kinds are called "${name}"`);
        taken.add(name);
      }
    }
  }

  all(): readonly Kind[] {
    return [...this.#kinds.values()];
  }

  resolve(params: { group: string; version: string; kind: string }): Kind {
    return this.#of(this.registry.resolve(params.group, params.version, params.kind));
  }

  /** By what people call it: `app`, `apps`. */
  named(name: string): Kind | undefined {
    return this.all().find((kind) => namesOf(kind).includes(name));
  }

  #of(type: AnyType): Kind {
    const kind = this.#kinds.get(type);
    if (kind === undefined) throw new FlynnError('internal', `the type ${type.name} has no kind`);
    return kind;
  }
}

/** What people may call it, the first being how it is written in references. */
export function namesOf({ type, names }: Kind): string[] {
  return [type.name, `${type.name}s`, ...names];
}
