/** The tabs of a page; the one that is open is in view, however narrow the screen. */
import { useEffect, useRef } from 'preact/hooks';
import type { Page } from '../routing.ts';
import { Link } from './link.tsx';

export type Tab = Readonly<{ title: string; to: Page; isCurrent: boolean }>;

export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  const row = useRef<HTMLElement>(null);
  const current = tabs.find(({ isCurrent }) => isCurrent)?.title;
  useEffect(() => {
    const link = row.current?.querySelector<HTMLElement>('[aria-current]');
    if (row.current === null || link === null || link === undefined) return;
    row.current.scrollLeft = link.offsetLeft - (row.current.clientWidth - link.offsetWidth) / 2;
  }, [current]);
  return (
    <nav class="tabs" aria-label={label} ref={row}>
      {tabs.map(({ title, to, isCurrent }) => (
        <Link key={title} to={to} isCurrent={isCurrent}>
          {title}
        </Link>
      ))}
    </nav>
  );
}
