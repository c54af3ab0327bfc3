/** A link within the pages: a real one, which a plain click follows without loading everything anew. */
import type { ComponentChildren } from 'preact';
import { type Page, pathOf } from '../routing.ts';
import { useServices } from './services.ts';

export function Link(props: { to: Page; class?: string; isCurrent?: boolean; children: ComponentChildren }) {
  const { to, isCurrent = false, children } = props;
  const { go } = useServices();
  const follow = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return (
    <a href={pathOf(to)} class={props.class} aria-current={isCurrent ? 'page' : undefined} onClick={follow}>
      {children}
    </a>
  );
}
