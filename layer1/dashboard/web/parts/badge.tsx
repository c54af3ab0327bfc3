/** A state in a word and a colour; the word alone says it. */
import type { ComponentChildren } from 'preact';
import type { Tone } from './tone.ts';

export function Badge({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return <span class={`badge badge-${tone}`}>{children}</span>;
}
