/**
 * One view for each place that Streamlit gave. Streamlit also makes and ends calls that a newer one overtook: what they bring is old,
 * and a view goes once its place has left the page, no sooner.
 */
export function keeping(make) {
  const views = new Map();
  return (component) => {
    const { parentElement: place, data } = component;
    if (!views.has(place)) place.append(views.set(place, make()).get(place).root);
    const view = views.get(place);
    if (view.data?.server !== data.server || view.data.run <= data.run) view.update(component);
    return () => {
      if (place.isConnected) return;
      views.get(place)?.dispose();
      views.delete(place);
    };
  };
}
